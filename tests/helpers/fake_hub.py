"""The Hugging Face Hub, as its client sees it over the wire."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from typing import Any

import yaml
from huggingface_hub import constants
from huggingface_hub.utils import get_session

NAME = "somebody/tiny"
STORAGE = "storage.example"
http: Any = sys.modules[type(get_session()).__module__.split(".")[0]]
"""The HTTP library of the client's generation."""


class FakeHub:
    """Answers as the Hub does, out of a dictionary; every answer is to a request that the real client made."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool | None] = {}
        self.brought: list[str] = []
        """Files that were downloaded."""
        self.commits: list[list[dict[str, Any]]] = []
        self.metadata: list[dict[str, Any]] = []
        """What the Hub was asked to validate."""
        self.refuses: int | None = None
        self.down = False
        self.slow = False
        self.silent = False
        """Nobody even says that there is no connection."""
        self.asked = 0
        """Requests."""
        self.large: int | None = None
        """Files of so many bytes do not go into the commit, but into the storage beforehand (Git LFS)."""
        self.part: int | None = None
        """Into the storage, files go in parts of so many bytes."""
        self.storage: dict[str, bytes] = {}
        self.parts: dict[str, bytes] = {}
        self.stored: list[str] = []
        """What the storage was sent."""
        self.storage_refuses: int | None = None

    def __call__(self, request: Any) -> Any:
        self.asked += 1
        if self.down:
            raise http.ConnectError("no route to host", request=request)
        if self.silent:
            raise http.ConnectTimeout("no connection yet", request=request)
        if self.slow:
            raise http.ReadTimeout("no answer yet", request=request)
        if self.refuses is not None:
            return http.Response(self.refuses, json={"error": "no"}, request=request)
        path = request.url.path
        if request.url.host == STORAGE:
            return self.kept(request)
        if request.method == "POST":
            return self.changed(path, json.loads(request.content) if "commit" not in path else request.content)
        if found := re.fullmatch(r"/([\w-]+/[\w-]+)/resolve/(\w+)/(.+)", path):
            return self.file(request.method, found[1], found[3])
        found = re.match(r"/api/models/([\w-]+/[\w-]+)(?:/(revision|tree)/(\w+))?", path)
        assert found, f"{request.method} {path}"
        if found[1] not in self.repositories:
            return http.Response(404, headers={"X-Error-Code": "RepoNotFound"}, json={"error": "not found"})
        if found[3] not in (None, "main", self.commit(found[1])):
            return http.Response(404, headers={"X-Error-Code": "RevisionNotFound"}, json={"error": "not found"})
        files = self.repositories[found[1]]
        if found[2] == "tree":
            return http.Response(
                200, json=[{"type": "file", "path": f, "size": len(c), "oid": oid(c)} for f, c in files.items()]
            )
        siblings = [{"rfilename": file} for file in files]
        return http.Response(200, json={"id": found[1], "sha": self.commit(found[1]), "siblings": siblings})

    def commit(self, name: str) -> str:
        return oid(b"".join(self.repositories[name].values()))

    def file(self, method: str, name: str, file: str) -> Any:
        if name not in self.repositories:
            return http.Response(404, headers={"X-Error-Code": "RepoNotFound"}, json={"error": "not found"})
        if file not in self.repositories[name]:
            headers = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": self.commit(name)}
            return http.Response(404, headers=headers, json={"error": "not found"})
        content = self.repositories[name][file]
        if self.large is not None and len(content) >= self.large:
            headers = {
                "Location": f"https://{STORAGE}/{sha256(content)}",
                "X-Linked-Etag": f'"{sha256(content)}"',
                "X-Linked-Size": str(len(content)),
                "X-Repo-Commit": self.commit(name),
            }
            return http.Response(302, headers=headers)
        headers = {"ETag": f'"{oid(content)}"', "X-Repo-Commit": self.commit(name), "Content-Length": str(len(content))}
        if method == "GET":
            self.brought.append(file)
        return http.Response(200, headers=headers, content=content if method == "GET" else b"")

    def kept(self, request: Any) -> Any:
        """What the storage answers, which is another host, and none that a token is meant for."""
        assert "authorization" not in request.headers
        name = request.url.path.removeprefix("/")
        if self.storage_refuses is not None:
            return http.Response(self.storage_refuses, request=request)
        if request.method == "GET":
            self.brought.append(name)
            return http.Response(200, content=self.storage[name])
        assert request.method == "PUT"
        content = request.read()
        self.stored.append(name)
        (self.storage if "/" not in name else self.parts)[name] = content
        return http.Response(200, headers={"ETag": f'"{oid(content)}"'})

    def large_files(self, objects: list[dict[str, Any]]) -> Any:
        """Where each of them is to be sent, unless the storage has it."""
        answers = []
        for each in objects:
            upload: dict[str, Any] = {"href": f"https://{STORAGE}/{each['oid']}"}
            if self.part is not None:
                count = -(-each["size"] // self.part)
                upload = {
                    "href": f"{constants.ENDPOINT}/complete",
                    "header": {"chunk_size": str(self.part)}
                    | {f"{i:05}": f"https://{STORAGE}/{each['oid']}/{i}" for i in range(1, count + 1)},
                }
            actions = {"upload": upload, "verify": {"href": f"{constants.ENDPOINT}/verify"}}
            answers.append(dict(each) if each["oid"] in self.storage else {**each, "actions": actions})
        return http.Response(200, json={"transfer": "basic", "objects": answers})

    def changed(self, path: str, body: Any) -> Any:
        if path.endswith("/info/lfs/objects/batch"):
            return self.large_files(body["objects"])
        if path == "/complete":
            numbers = [part["partNumber"] for part in body["parts"]]
            self.storage[body["oid"]] = b"".join(self.parts[f"{body['oid']}/{i}"] for i in numbers)
            return http.Response(200, json={})
        if path == "/verify":
            found = self.storage[body["oid"]]
            return http.Response(200 if (sha256(found), len(found)) == (body["oid"], body["size"]) else 422, json={})
        if path == "/api/repos/create":
            name = f"{body['organization']}/{body['name']}" if body.get("organization") else body["name"]
            self.repositories.setdefault(name, {})
            self.private[name] = body.get("private") or body.get("visibility") == "private"
            return http.Response(200, json={"url": f"{constants.ENDPOINT}/{name}"})
        if path == "/api/validate-yaml":
            self.metadata.append(yaml.safe_load(body["content"].split("---")[1]))
            return http.Response(200, json={"errors": [], "warnings": []})
        found = re.fullmatch(r"/api/models/([\w-]+/[\w-]+)/(preupload|commit)/main", path)
        assert found, f"POST {path}"
        if found[2] == "preupload":
            modes = ["regular" if self.large is None or f["size"] < self.large else "lfs" for f in body["files"]]
            answers = [
                {"path": f["path"], "uploadMode": mode, "shouldIgnore": False}
                for f, mode in zip(body["files"], modes, strict=True)
            ]
            return http.Response(200, json={"files": answers})
        lines = [json.loads(line) for line in body.splitlines()]
        self.commits.append(lines)
        files = self.repositories[found[1]]
        for line in lines:
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "lfsFile":
                files[line["value"]["path"]] = self.storage[line["value"]["oid"]]
            elif line["key"] == "deletedFile":
                del files[line["value"]["path"]]
        answer = {"commitUrl": f"{constants.ENDPOINT}/{found[1]}/commit/abc", "commitOid": "abc", "hookOutput": ""}
        return http.Response(200, json=answer)


def oid(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
