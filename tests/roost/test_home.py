"""Where the files are."""

import hashlib
from pathlib import Path

import pytest

from roost.home import RoostHome, project_slug


def digest(project_dir: str) -> str:
    return hashlib.sha256(project_dir.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/home/u"}, "/home/u/.roost"),
        ({"HOME": "/home/u", "ROOST_HOME": ""}, "/home/u/.roost"),
        ({"HOME": "/home/u", "ROOST_HOME": "/srv/roost/"}, "/srv/roost"),
        ({"HOME": "/home/u", "ROOST_HOME": "~/r"}, "/home/u/r"),
        ({"HOME": "/home/u", "ROOST_HOME": "~"}, "/home/u"),
    ],
)
def test_the_home_is_where_the_environment_says(environ: dict[str, str], path: str) -> None:
    assert RoostHome.from_environment(environ).path == Path(path)


def test_a_relative_home_is_made_absolute() -> None:
    """The daemon's workers run in other folders."""
    assert RoostHome.from_environment({"ROOST_HOME": "x"}).path == Path.cwd() / "x"


@pytest.mark.parametrize(
    ("project_dir", "cleaned", "name"),
    [
        ("/srv/My_Project.2", "/srv/My_Project.2", "my-project-2"),
        ("/srv/a/../My_Project.2/", "/srv/My_Project.2", "my-project-2"),
        ("/srv/Größe", "/srv/Größe", "gr--e"),
        ("/", "/", ""),
    ],
)
def test_a_slug_is_the_folders_name_and_a_hash_of_its_path(
    project_dir: str, cleaned: str, name: str
) -> None:
    assert project_slug(project_dir) == f"{name}-{digest(cleaned)}"


def test_two_projects_of_one_name_have_two_slugs() -> None:
    assert project_slug("/a/x") != project_slug("/b/x")


def test_a_slug_is_a_file_name_however_long_the_folders_name_is() -> None:
    assert len(project_slug("/" + "x" * 255)) <= 255


def test_a_slug_needs_an_absolute_path() -> None:
    with pytest.raises(ValueError, match="absolute"):
        project_slug("x")


def test_conversations_are_below_their_project() -> None:
    home = RoostHome(Path("/h"))
    assert home.conversations("/p") == Path(f"/h/projects/p-{digest('/p')}/conversations")
