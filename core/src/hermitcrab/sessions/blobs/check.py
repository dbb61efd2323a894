"""What is wrong with the files beside a transcript (design 5). They are read, and none is changed."""

from __future__ import annotations

from collections.abc import Iterator

from hermitcrab.errors import TranscriptError
from hermitcrab.messages.media import shown_size
from hermitcrab.sessions.blobs.blobs import BlobReference
from hermitcrab.sessions.blobs.files import blob_folder, entry_references, read_blob
from hermitcrab.sessions.repair.survey import Survey
from hermitcrab.sessions.repair.verify import Finding

#: What the findings of this module are called; mending takes none of them away.
BLOB_KINDS = frozenset({"blob", "orphan-blobs"})


def blob_findings(survey: Survey) -> list[Finding]:
    """Files that entries name and that are missing or damaged, on any branch, and files that no entry names."""
    if survey.is_newer or not survey.is_transcript:
        return []
    folder = blob_folder(survey.path)
    faults: dict[BlobReference, str | None] = {}
    found: list[Finding] = []
    for line, entry in zip(survey.lines, survey.entries, strict=True):
        for reference in entry_references(entry):
            if reference not in faults:
                faults[reference] = _fault(survey, reference)
            if faults[reference] is not None:
                found.append(
                    Finding(
                        kind="blob",
                        message=f"{shown_size(reference.bytes)} of media or of a large result,"
                        f" {folder.name}/{reference.sha256}: {faults[reference]}",
                        line=line.number,
                        offset=line.offset,
                    )
                )
    return [*found, *_orphans(survey, {reference.sha256 for reference in faults})]


def _fault(survey: Survey, reference: BlobReference) -> str | None:
    try:
        read_blob(blob_folder(survey.path), reference)
    except TranscriptError as error:
        return error.message
    return None


def _orphans(survey: Survey, named: set[str]) -> Iterator[Finding]:
    """A writer may be about to name them, and a backup of the transcript may: they are told of and stay."""
    folder = blob_folder(survey.path)
    files = [each for each in folder.iterdir() if each.name not in named] if folder.is_dir() else []
    if files:
        size = shown_size(sum(each.lstat().st_size for each in files))
        what = "1 file" if len(files) == 1 else f"{len(files):,} files"
        yield Finding(
            kind="orphan-blobs",
            message=f"no entry names {what} in {folder.name} ({size}); left by a write that was"
            " interrupted, or named by a backup",
            level="information",
        )
