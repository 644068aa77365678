"""Pictures of artifacts, for the tasks that have one."""

from daydream.tasks.base import ARTIFACT_FILE, Artifact


def picture_of(task: str, artifact: Artifact) -> str | None:
    """Return a self-contained SVG of ``artifact``; None for tasks without a picture."""
    if not _drawable(task, artifact):
        return None
    from daydream.tasks.circle_picture import picture

    return picture(artifact)


def sketch_of(task: str, artifact: Artifact, columns: int) -> str | None:
    """Return a picture in characters, ``columns`` wide; None for tasks without one."""
    if not _drawable(task, artifact):
        return None
    from daydream.tasks.circle_picture import sketch

    return sketch(artifact, columns)


def _drawable(task: str, artifact: Artifact) -> bool:
    return task.partition(":")[0] == "circle-packing" and ARTIFACT_FILE in artifact.files
