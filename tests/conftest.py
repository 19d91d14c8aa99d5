"""For all tests: helpers under tests/support show what differs, as the tests themselves do."""

import pytest

pytest.register_assert_rewrite("tests.support.goldens", "tests.support.http", "tests.support.watching")
