"""Fixtures of several files."""
import pytest

import agents


@pytest.fixture
def nodes(tmp_path):
    """Makes `agents.Nodes`, and ends all that is left of them."""
    made = []

    def make(*options):
        made.append(agents.Nodes(tmp_path, *options))
        return made[-1]
    yield make
    for each in made:
        each.close()
