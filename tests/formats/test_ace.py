"""ACE04 and ACE05 from files in the LDC's form."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.ace import NEWS, MadeAce, news
from unire import formats
from unire.cli.main import app
from unire.documents import Document
from unire.errors import UnireError
from unire.formats.ace import parse_sgm, parse_xml

runner = CliRunner()


def converted(folder: Path, made: MadeAce, notes: Counter[str] | None = None) -> Document:
    (document,) = formats.read(made.write(folder), made.corpus, notes=notes)
    return document


def relation_texts(document: Document) -> list[str]:
    return [" ".join(str(relation).split()) for relation in document.relations]


# The text


def test_tags_count_for_nothing_and_entities_for_the_characters_they_are_written_with() -> None:
    source = parse_sgm("<DOC>\r\nAT&amp;T <B>&#65;</B>\r\n</DOC>\r\n")
    assert source.text == "\nAT&T A\n\n"
    assert source.positions == [0, 1, 2, 3, 3, 3, 3, 3, 4, 5, 6, 6, 6, 6, 6, 7, 8, 9]


def test_text_that_only_looks_like_a_reference_stays_text() -> None:
    source = parse_sgm("R&DEPT; &lt;")
    assert source.text == "R&DEPT; <"
    assert source.positions == [*range(9), 8, 8, 8, 9]


@pytest.mark.parametrize("quoted", ["Lovelace &amp; Sons", "Lovelace &amp;amp; Sons"])
def test_a_quotation_may_spell_references_as_the_source_does(tmp_path: Path, quoted: str) -> None:
    made = news()
    made.parts[0] = made.parts[0].replace("Lovelace &amp; Sons", quoted)
    document = converted(tmp_path, made, notes := Counter())
    assert document.entities[0].text == "Lovelace & Sons"
    assert not notes["mention whose text is not that at its offsets, left out"]


def test_times_values_and_events_are_counted(tmp_path: Path) -> None:
    made = news()
    place = f"<extent>{made.charseq('nothing')}</extent>"
    made.parts += [
        f'<timex2 ID="T1" VAL="2003"><timex2_mention ID="T1-1">{place}</timex2_mention></timex2>',
        f'<value ID="V1" TYPE="Numeric"><value_mention ID="V1-1">{place}</value_mention></value>',
        f'<event ID="V1" TYPE="Life"><event_mention ID="V1-1">{place}</event_mention></event>',
    ]
    when = '<relation_mention_argument REFID="T1-1" ROLE="Time-Within"/></relation_mention>'
    made.parts = [part.replace("</relation_mention>", when, 1) if "Family" in part else part for part in made.parts]
    document = converted(tmp_path, made, notes := Counter())
    assert len(document.entities) == 13
    for what in ("time", "value", "event"):
        assert any(f" {what}, left out" in note and count == 1 for note, count in notes.items()), (what, notes)
    assert notes["third argument of a relation mention (for example a time), skipped"] == 1


def test_only_the_body_is_read_and_a_tag_at_the_end_of_a_line_ends_a_sentence(tmp_path: Path) -> None:
    document = converted(tmp_path, news())
    assert [" ".join(sentence.words) for sentence in document.sentences] == [
        "Ada visits Lovelace & Sons",
        "Mary Somerville",
        "Ada Lovelace , the wife of an earl , met pro-Iraqi officials of the United Nations in London .",
        "They left .",
        "The White House and its spokesman said nothing .",
    ]


def test_a_document_without_a_body_is_read_from_its_text_or_whole() -> None:
    assert parse_sgm("<DOC>\na\n<TEXT>\nb\n</TEXT>\n</DOC>").blocks == [(3, 6)]
    assert parse_sgm("plain").blocks == [(0, 5)]


# Entities and relations


@pytest.mark.parametrize("corpus", ["ace04", "ace05"])
def test_heads_are_entities_and_relation_mentions_relations(tmp_path: Path, corpus: str) -> None:
    notes: Counter[str] = Counter()
    document = converted(tmp_path, news(corpus), notes)
    assert [(" ".join(e.text.split()), e.label) for e in document.entities] == [
        ("Lovelace & Sons", "ORG"),
        ("Mary Somerville", "PER"),
        ("Ada Lovelace", "PER"),
        ("wife", "PER"),
        ("earl", "PER"),
        ("pro-Iraqi", "GPE"),
        ("officials", "PER"),
        ("United Nations", "ORG"),
        ("London", "GPE"),
        ("They", "PER"),
        ("White House", "FAC"),
        ("White House", "ORG"),
        ("spokesman", "PER"),
    ]
    names = {"ace04": ("EMP-ORG", "GPE-AFF", "DISC"), "ace05": ("ORG-AFF", "GEN-AFF", "METONYMY")}
    employment, origin, dropped = names[corpus]
    assert relation_texts(document) == [
        "wife [PER] –PER-SOC→ earl [PER]",
        "Ada Lovelace [PER] –PHYS→ London [GPE]",
        f"officials [PER] –{employment}→ United Nations [ORG]",
        f"officials [PER] –{origin}→ pro-Iraqi [GPE]",
        f"spokesman [PER] –{employment}→ White House [ORG]",
        "They [PER] –PHYS→ London [GPE]",
    ]
    assert +notes == {
        "entity that splits a word, extended to the whole word": 1,
        "mention outside the body of its document, left out": 1,
        "mention with the head and the type of another, taken as one": 1,
        "mention of the type 'TIME', left out": 1,
        "relation mention like another, taken as one": 1,
        f"relation mention of the type {dropped!r}, left out": 1,
        "relation mention one of whose arguments is left out": 1,
    }


def test_a_relation_across_sentences_is_kept_apart(tmp_path: Path) -> None:
    (relation,) = converted(tmp_path, news()).spanning_relations
    assert str(relation) == "They [PER] –PHYS→ London [GPE]"


def test_subtypes_levels_and_extents_are_attributes(tmp_path: Path) -> None:
    document = converted(tmp_path, news())
    wife = document.entities[3]
    assert wife.attributes["level"] == "NOM"
    assert wife.attributes["class"] == "SPC"
    assert document.words[slice(*wife.attributes["extent"])] == ("the", "wife", "of", "an", "earl")
    assert document.entities[10].attributes["metonymy"] is True
    iraqi = document.entities[5]
    (start, end) = iraqi.attributes["characters"][0]
    assert document.text[start:end] == "Iraqi"
    assert document.relations[0].attributes["subtype"] == "Family"


def test_a_mention_whose_text_is_elsewhere_is_left_out(tmp_path: Path) -> None:
    made = news()
    made.parts[0] = re.sub(r"START=\"(\d+)\"", lambda m: f'START="{int(m[1]) - 3}"', made.parts[0])
    notes: Counter[str] = Counter()
    document = converted(tmp_path, made, notes)
    assert "Lovelace & Sons" not in [entity.text for entity in document.entities]
    assert notes["mention whose text is not that at its offsets, left out"] == 1


# Files


def test_the_last_stage_of_annotation_is_taken(tmp_path: Path) -> None:
    first, last = news(), news()
    first.parts = []
    for stage, made in (("adj", first), ("fp1", first), ("timex2norm", last)):
        made.write(tmp_path / "nw" / stage)
    (document,) = formats.read(tmp_path, "ace05")
    assert document.entities


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda xml: xml.replace("</document>", ""), "not valid XML"),
        (lambda xml: xml.replace("<charseq", "<chars").replace("</charseq", "</chars"), "it has no <charseq>"),
        (lambda xml: re.sub('START="[0-9]+"', 'START="x"', xml), "must be whole numbers"),
        (lambda xml: xml.replace("Arg-2", "Arg-3"), "must have two arguments"),
        (lambda xml: xml.replace('.dtd">', '.dtd" [<!ENTITY a "b">]>'), "uses the entity 'a'"),
        (lambda xml: xml.replace("<document ", "&evil;<document "), "uses the entity 'evil'"),
    ],
)
def test_a_broken_file_is_refused_by_name_and_reason(tmp_path: Path, change, reason: str) -> None:
    made = news()
    made.write(tmp_path)
    file = tmp_path / f"{made.name}.apf.xml"
    file.write_text(change(made.apf), encoding="utf-8")
    with pytest.raises(UnireError, match=re.escape(reason)) as caught:
        list(formats.read(tmp_path, "ace05"))
    assert str(caught.value).startswith(f"{file}: ")
    errors: list[UnireError] = []
    with pytest.raises(UnireError, match="holds no document"):
        list(formats.read(tmp_path, "ace05", on_error=errors.append))
    assert len(errors) == 1


def test_xml_that_grows_without_bound_is_refused() -> None:
    laughs = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(9))
    with pytest.raises(UnireError, match="uses the entity"):
        parse_xml(f'<!DOCTYPE x [<!ENTITY l0 "ha">{laughs}]><x>&l9;</x>'.encode())
    with pytest.raises(UnireError, match="uses the entity"):
        parse_xml(b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>')


def test_annotation_without_a_text_is_refused(tmp_path: Path) -> None:
    made = news()
    made.write(tmp_path)
    (tmp_path / f"{made.name}.sgm").unlink()
    with pytest.raises(UnireError, match=r"NEWS_20030101\.0001\.sgm is missing in the same folder"):
        list(formats.read(tmp_path, "ace05"))


def test_a_folder_of_ace_needs_the_name_of_its_corpus(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match='pass format="ace04" or format="ace05"'):
        formats.guess(news().write(tmp_path))


def test_ace_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UnireError, match="'ace05' can be read, but not written"):
        formats.write([], tmp_path / "out", "ace05")


# The command


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Twelve documents of the same text."""
    for number in range(12):
        made = news()
        made.name = f"NEWS_{number}"
        made.write(tmp_path / "ldc" / "nw" / "timex2norm")
    return tmp_path


def lists(folder: Path, **names: list[int]) -> Path:
    for part, numbers in names.items():
        path = folder / "lists" / part.replace("_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"nw/timex2norm/NEWS_{number}.apf.xml\n" for number in numbers))
    return folder / "lists"


def convert(corpus: Path, *options: object):
    line = ["data", "convert", "--from", "ace05", corpus / "ldc", "--out", corpus / "out", *options]
    return runner.invoke(app, list(map(str, line)))


def test_split_lists_make_files_and_counts_stand_beside_the_papers(corpus: Path) -> None:
    ran = convert(corpus, "--splits", lists(corpus, train=[0, 1, 2], dev=[3], test=[4, 5]))
    assert ran.exit_code == 0, ran.output
    assert [d.id for d in formats.read(corpus / "out" / "train.jsonl")] == ["NEWS_0", "NEWS_1", "NEWS_2"]
    assert len(list(formats.read(corpus / "out" / "test.jsonl"))) == 2
    assert re.search(r"sentences +30 +14,525", ran.output)
    assert re.search(r"entities kept +78 +38,287", ran.output)
    assert re.search(r"relations, symmetric ones doubled +42 +7,691", ran.output)
    assert re.search(r"not held by tables: relation across sentences +6", ran.output)
    assert "6 × document on no split list" in ran.output


def test_a_part_without_dev_gets_a_seeded_sample_of_train(corpus: Path) -> None:
    folder = lists(corpus, fold1_train=list(range(10)), fold1_test=[10, 11])
    ran = convert(corpus, "--splits", folder, "--json")
    assert json.loads(ran.stdout)["documents"] == {"fold1/train": 9, "fold1/dev": 1, "fold1/test": 2}
    first = [d.id for d in formats.read(corpus / "out" / "fold1" / "dev.jsonl")]
    shutil.rmtree(corpus / "out")
    convert(corpus, "--splits", folder)
    assert [d.id for d in formats.read(corpus / "out" / "fold1" / "dev.jsonl")] == first
    assert json.loads(ran.stdout)["table_2"]["documents"] == {"here": 12, "paper": None}
    ran = convert(corpus, "--splits", folder, "--dev-fraction", 0.4, "--json")
    assert json.loads(ran.stdout)["documents"] == {"fold1/train": 6, "fold1/dev": 4, "fold1/test": 2}


def test_a_name_that_is_not_found_is_refused(corpus: Path) -> None:
    ran = convert(corpus, "--splits", lists(corpus, train=[0, 77]))
    assert ran.exit_code == 1
    assert isinstance(ran.exception, UnireError)
    assert "names 1 documents that the data does not have, 'nw/timex2norm/NEWS_77.apf.xml'" in str(ran.exception)
    assert not (corpus / "out").exists()


def test_without_lists_there_is_one_file(corpus: Path) -> None:
    ran = convert(corpus)
    assert "Converted 12 documents (ace05 → unire) to" in ran.output
    assert len(list(formats.read(corpus / "out"))) == 12


def test_the_made_text_has_what_the_tests_are_about() -> None:
    assert "United\nNations" in NEWS
    assert "&amp;" in NEWS
    assert re.search(r"\w <QUOTE[^>]*>\w+</QUOTE>\.", NEWS)
