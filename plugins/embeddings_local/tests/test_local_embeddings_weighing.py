"""Queries whose words weigh by how rare they are in what is searched."""

from __future__ import annotations

import numpy as np
import pytest

from hermitcrab_embeddings_local.provider import LocalEmbeddings
from hermitcrab_embeddings_local.weighing import piece_weights

QUERY = "What did Caroline tell Melanie about the pottery class?"


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("Kiln, now", [(0, 2), (2, 4), (4, 5), (5, 9)], [2.0, 2.0, 0.0, 0.5]),
        ("ein Kiln", [(0, 3), (3, 8)], [0.0, 2.0]),
        ("", [], []),
        ("a_kiln", [(0, 6)], [0.0]),
        ("now", [(0, 0)], [0.0]),
    ],
)
def test_a_piece_weighs_what_the_first_word_in_it_does(text, spans, expected):
    assert piece_weights(text, spans, {"kiln": 2.0, "now": 0.5}) == expected


async def test_a_rare_word_leads_and_a_name_in_every_note_hardly_counts(local: LocalEmbeddings):
    pottery, caroline = await local.embed_documents(["pottery class", "Caroline, Melanie"])
    plain = await local.embed_query(QUERY)
    weights = {"caroline": 0.1, "melanie": 0.1, "pottery": 4.0, "class": 3.0}
    weighed = await local.embed_weighed_query(QUERY, weights)
    assert np.dot(weighed, pottery) > np.dot(plain, pottery) + 0.1
    assert np.dot(weighed, caroline) < np.dot(plain, caroline)
    assert np.linalg.norm(weighed) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("weights", [{}, {"elsewhere": 3.0}, {"caroline": 0.0}])
async def test_without_a_weight_that_counts_it_is_the_plain_query(local: LocalEmbeddings, weights):
    plain = await local.embed_query(QUERY)
    assert await local.embed_weighed_query(QUERY, weights) == pytest.approx(plain, abs=1e-6)


async def test_only_models_with_static_vectors_weigh_words(loaded: dict[str, LocalEmbeddings]):
    weighing = {name for name, provider in loaded.items() if provider.weighs_words}
    assert weighing == {"by-script", "static"}


async def test_a_query_in_another_script_is_not_touched(local: LocalEmbeddings):
    asked = "她不能吃哪种药？"
    plain = await local.embed_query(asked)
    assert await local.embed_weighed_query(asked, {"药": 3.0}) == pytest.approx(plain, abs=1e-6)
