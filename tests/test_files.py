import os
import stat

import pytest

from kdcode.files import replacing


def test_the_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "out"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(target) as temporary:
        temporary.write_text("half \ud800", encoding="utf-8")
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "out") as temporary:
        temporary.write_text("new")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "out")}
    assert len(modes) == 1


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "real")
    with replacing(tmp_path / "link") as temporary:
        assert temporary.parent == tmp_path / "deep"
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "real").read_text() == "new"


def test_a_long_name_is_no_trouble(tmp_path):
    with replacing(tmp_path / ("n" * 255)) as temporary:
        temporary.write_text("new")
    assert os.listdir(tmp_path) == ["n" * 255]  # noqa: PTH208
