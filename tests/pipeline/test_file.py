"""What a pipeline.toml says about bulk work."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparqlive
from sparqlive.pipeline.file import read_pipeline


def written(folder: Path, *lines: str) -> Path:
    path = folder / "pipeline.toml"
    path.write_text("\n".join(['store = "a.store"', *lines]))
    return path


def test_bulk_work_is_done_on_spark_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    assert read_pipeline(written(tmp_path)).bulk == "spark"
    for choice in ("auto", "duckdb", "spark"):
        assert read_pipeline(written(tmp_path, f'bulk = "{choice}"')).bulk == choice


@pytest.mark.parametrize("value", ['"magic"', '""', "1", "true"])
def test_other_choices_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(sparqlive.Error, match="bulk"):
        read_pipeline(written(tmp_path, f"bulk = {value}"))


@pytest.mark.parametrize("address", ["http://127.0.0.1:8080", "s3a://shop/store", "file:///data/shop.store"])
def test_a_store_is_not_at_an_address(tmp_path: Path, address: str) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(f'store = "{address}"\n', encoding="utf-8")
    with pytest.raises(sparqlive.Error, match=f"store must be a local directory, not the address {address}"):
        read_pipeline(file)
