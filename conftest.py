"""Settings for every test of the workspace."""

from __future__ import annotations

import os

from hypothesis import settings

# A change must not fail for an example that chance found elsewhere: in CI the examples are always the same ones,
# everywhere else new ones are tried. Machines are shared, so no example has a deadline.
settings.register_profile("explore", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")
