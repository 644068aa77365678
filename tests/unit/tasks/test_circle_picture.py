"""Pictures of packings: well-formed, to scale, and honest about what touches."""

import xml.etree.ElementTree as ElementTree

import pytest

from daydream.tasks.base import Artifact, json_artifact
from daydream.tasks.circle_packing import Circle, build, packing_artifact
from daydream.tasks.circle_picture import MARGIN, SIDE, picture, sketch
from daydream.tasks.pictures import picture_of, sketch_of

PAIR: list[Circle] = [(0.25, 0.5, 0.25), (0.75, 0.5, 0.2)]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(circles: list[Circle]) -> ElementTree.Element:
    return ElementTree.fromstring(picture(packing_artifact(circles)))


def test_each_circle_is_drawn_to_scale_with_the_square_the_right_way_up() -> None:
    discs = list(drawn([(0.25, 0.75, 0.2), (0.8, 0.1, 0.1)]).iter(f"{SVG}circle"))
    assert [disc.get("r") for disc in discs] == [f"{0.2 * SIDE:g}", f"{0.1 * SIDE:g}"]
    assert discs[0].get("cx") == f"{MARGIN + 0.25 * SIDE:g}"
    assert discs[0].get("cy") == f"{MARGIN + 0.25 * SIDE:g}"
    assert discs[0].get("fill") != discs[1].get("fill")


def test_contacts_are_lines_and_gaps_are_not() -> None:
    assert len(list(drawn(PAIR).iter(f"{SVG}line"))) == 1
    touching: list[Circle] = [(0.25, 0.5, 0.25), (0.75, 0.5, 0.25)]
    assert len(list(drawn(touching).iter(f"{SVG}line"))) == 3


def test_the_caption_tells_the_sum_and_needs_nothing_from_outside() -> None:
    text = picture(packing_artifact(PAIR))
    assert "2 circles, sum of radii 0.4500000000" in text
    assert "href" not in text
    assert "url(" not in text


def test_equal_packings_give_equal_pictures() -> None:
    root = build({"n": "26"}).root()
    assert picture(root) == picture(Artifact(dict(root.files)))


@pytest.mark.parametrize("columns", [1, 8, 21, 60])
def test_a_sketch_is_as_wide_as_asked_and_half_as_tall(columns: int) -> None:
    lines = sketch(packing_artifact(PAIR), columns).split("\n")
    width = max(8, columns)
    assert {len(line) for line in lines} == {width}
    assert len(lines) == (width + 1) // 2
    assert all(0x2800 <= ord(mark) <= 0x28FF for line in lines for mark in line)


def test_a_sketch_shows_a_circle_where_it_is() -> None:
    empty = sketch(packing_artifact([]), 40).split("\n")
    lines = sketch(packing_artifact([(0.25, 0.75, 0.2)]), 40).split("\n")
    changed = [
        (row, column)
        for row, line in enumerate(lines)
        for column, mark in enumerate(line)
        if mark != empty[row][column]
    ]
    assert changed
    assert max(row for row, _ in changed) < 10, "upper half"
    assert max(column for _, column in changed) < 20, "left half"


def test_infeasible_packings_are_drawn_and_unreadable_ones_refused() -> None:
    wild: list[Circle] = [(0.5, 0.5, 3.0), (-1.0, 0.5, 0.2), (0.5, 0.5, -0.1)]
    assert len(list(drawn(wild).iter(f"{SVG}circle"))) == 2
    assert sketch(packing_artifact(wild), 20)
    for draw in (picture, lambda artifact: sketch(artifact, 20)):
        with pytest.raises(ValueError, match="circles"):
            draw(json_artifact({"points": []}))


def test_only_packings_have_pictures() -> None:
    artifact = packing_artifact(PAIR)
    assert picture_of("circle-packing:n=26", artifact) == picture(artifact)
    assert sketch_of("circle-packing", artifact, 20) == sketch(artifact, 20)
    assert picture_of("lasso", artifact) is None
    assert sketch_of("lasso", artifact, 20) is None
