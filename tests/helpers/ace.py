"""Files in the form of ACE04 (v4 of its format) and ACE05 (v5), written for the tests from text of our own.

    made = MadeAce("ace05", "NAME", SGM)
    made.entity("PER", made.mention("Ada", head="Ada"))
    made.write(folder)

Offsets are counted here as the format says: characters of the file without its tags, `&amp;` being five of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape


@dataclass
class MadeAce:
    corpus: str
    name: str
    sgm: str
    parts: list[str] = field(default_factory=list)
    count: int = 0

    @property
    def raw(self) -> str:
        return re.sub(r"<[^<>]+>", "", self.sgm)

    def charseq(self, text: str, occurrence: int = 0, start: int = 0) -> str:
        """`text` as the file spells it, found for the `occurrence`-th time after `start`."""
        for _ in range(occurrence + 1):
            place = self.raw.index(text, start)
            start = place + 1
        quoted = text.replace("&amp;", "&")
        return f'<charseq START="{place}" END="{place + len(text) - 1}">{escape(quoted)}</charseq>'

    def mention(self, extent: str, head: str, occurrence: int = 0, **attributes: str) -> tuple[str, str]:
        """The name of a new mention and its XML; the head stands inside the extent."""
        self.count += 1
        name = f"{self.name}-E{self.count}-1"
        whole = self.charseq(extent, occurrence)
        start = int(re.search(r'START="(\d+)"', whole)[1])
        fields = "".join(f' {key}="{value}"' for key, value in {"TYPE": "NAM", "LDCTYPE": "NAM", **attributes}.items())
        head = self.charseq(head, 0, start)
        xml = f'<entity_mention ID="{name}"{fields}><extent>{whole}</extent><head>{head}</head></entity_mention>'
        return name, xml

    def entity(self, type: str, *mentions: tuple[str, str], subtype: str = "Individual") -> list[str]:
        inside = "".join(xml for _, xml in mentions)
        number = len(self.parts)
        self.parts.append(
            f'<entity ID="{self.name}-E{number}" TYPE="{type}" SUBTYPE="{subtype}" CLASS="SPC">{inside}</entity>'
        )
        return [name for name, _ in mentions]

    def relation(self, type: str, head: str, tail: str, subtype: str = "Located") -> None:
        number = len(self.parts)
        if self.corpus == "ace05":
            arguments = "".join(
                f'<relation_mention_argument REFID="{name}" ROLE="Arg-{i}"/>' for i, name in ((1, head), (2, tail))
            )
        else:
            arguments = "".join(
                f'<rel_mention_arg ENTITYMENTIONID="{name}" ARGNUM="{i}"/>' for i, name in ((1, head), (2, tail))
            )
        self.parts.append(
            f'<relation ID="{self.name}-R{number}" TYPE="{type}" SUBTYPE="{subtype}">'
            f'<relation_mention ID="{self.name}-R{number}-1">{arguments}</relation_mention></relation>'
        )

    @property
    def apf(self) -> str:
        version = {"ace04": "apf.v4.0.1.dtd", "ace05": "apf.v5.1.1.dtd"}[self.corpus]
        inside = "\n".join(self.parts)
        return (
            f'<?xml version="1.0"?>\n<!DOCTYPE source_file SYSTEM "{version}">\n'
            f'<source_file URI="{self.name}.sgm" SOURCE="newswire" TYPE="text" ENCODING="UTF-8">\n'
            f'<document DOCID="{self.name}">\n{inside}\n</document>\n</source_file>\n'
        )

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.sgm").write_text(self.sgm, encoding="utf-8", newline="")
        (folder / f"{self.name}.apf.xml").write_text(self.apf, encoding="utf-8")
        return folder


NEWS = """<DOC>
<DOCID> NEWS_20030101.0001 </DOCID>
<DOCTYPE SOURCE="newswire"> NEWS STORY </DOCTYPE>
<BODY>
<DEFAULT_PROTOCOL>
Ada visits Lovelace &amp; Sons
</DEFAULT_PROTOCOL>
<TEXT>
<TURN>
<SPEAKER> Mary Somerville </SPEAKER>
Ada Lovelace, the wife of an earl, met pro-Iraqi
officials of the United
Nations in <QUOTE PREVIOUSPOST="x">London</QUOTE>. They left.

The White House and its spokesman said nothing.
</TURN>
</TEXT>
</BODY>
</DOC>
"""


def news(corpus: str = "ace05") -> MadeAce:
    """A document with nested tags, an entity across a line end, a head that splits a word, and so on."""
    made = MadeAce(corpus, "NEWS_20030101.0001", NEWS)
    (sons,) = made.entity("ORG", made.mention("Lovelace &amp; Sons", "Lovelace &amp; Sons"), subtype="Commercial")
    (mary,) = made.entity("PER", made.mention("Mary Somerville", "Mary Somerville"))
    long = "Ada Lovelace, the wife of an earl"
    ada, wife = made.entity(
        "PER", made.mention(long, "Ada Lovelace"), made.mention("the wife of an earl", "wife", TYPE="NOM")
    )
    (earl,) = made.entity("PER", made.mention("an earl", "earl", TYPE="NOM"))
    (iraq,) = made.entity("GPE", made.mention("Iraqi", "Iraqi"), subtype="Nation")
    (officials,) = made.entity("PER", made.mention("pro-Iraqi\nofficials of the United\nNations", "officials"))
    (nations,) = made.entity("ORG", made.mention("the United\nNations", "United\nNations"))
    london, again = made.entity("GPE", made.mention("London", "London"), made.mention("London", "London"))
    (they,) = made.entity("PER", made.mention("They", "They", TYPE="PRO"))
    (building,) = made.entity("FAC", made.mention("The White House", "White House", METONYMY_MENTION="TRUE"))
    (office,) = made.entity("ORG", made.mention("The White House", "White House", METONYMY_MENTION="TRUE"))
    (spokesman,) = made.entity("PER", made.mention("its spokesman", "spokesman", TYPE="NOM"))
    (source,) = made.entity("ORG", made.mention("NEWS_20030101", "NEWS_20030101"))
    made.entity("TIME", made.mention("nothing", "nothing"))
    made.relation("PER-SOC", wife, earl, "Family")
    made.relation("PHYS", ada, london)
    made.relation("PHYS", ada, again)
    made.relation("PHYS", they, london)
    made.relation("ORG-AFF" if corpus == "ace05" else "EMP-ORG", officials, nations, "Employment")
    made.relation("ORG-AFF" if corpus == "ace05" else "EMP-ORG", spokesman, office, "Employment")
    made.relation("METONYMY" if corpus == "ace05" else "DISC", building, office)
    made.relation("ART", mary, source)
    made.relation("GEN-AFF" if corpus == "ace05" else "GPE-AFF", officials, iraq)
    assert sons
    return made
