"""Mistakes with profiles: words, values, secrets, files and folders. Each is one sentence, and leaves all profiles as they were."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.command import profiles as module
from ottla.cli.command.profiles import IN_USE, Profiles
from ottla.errors import SettingError
from tests.support.mistakes import Commands

LOGIN = "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=a\n"
FAST = "-X default.api.timeout.ms=50"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of profiles, with the profile `dev`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVER", raising=False)
    folder = tmp_path / "ottla/profiles"
    Profiles().save("dev", {"bootstrap.servers": "127.0.0.1:1"})
    return folder


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys)


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


LONG = "x" * 101


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("create", "required: NAME"),
        ("create e", "add -b HOST:PORT"),
        ("create e -b ''", ""),
        ("create e -b", "expected one argument"),
        ("create e -b a:99999", "'a:99999' is not a host and port"),
        ("create e -b a:1,b:x", "'b:x' is not a host and port"),
        ("create e -b a:0", "'a:0' is not a host and port"),
        ("create '' -b a:1", "'' is empty"),
        (f"create {LONG} -b a:1", "cannot name a profile: use up to 100 letters"),
        ("create a/b -b a:1", "'a/b' cannot name a profile"),
        ("create ../dev -b a:1", "'../dev' cannot name a profile"),
        ("create .dev -b a:1", "'.dev' cannot name a profile"),
        ("create 'a b' -b a:1", "'a b' cannot name a profile"),
        ("create 'a\nb' -b a:1", "cannot name a profile"),
        ("create é -b a:1", "'é' cannot name a profile"),
        ("create e f -b a:1", "unknown arguments: f"),
        ("create e -b a:1 -X nope=1", "have no setting nope"),
        ("create e -b a:1 -X request.timeout.mss=1", "did you mean request.timeout.ms?"),
        ("create e -b a:1 -X nope", "'nope' has no value: write -X NAME=VALUE."),
        ("create e -b a:1 -X =1", "'=1' has no name: write -X NAME=VALUE."),
        ("create e -b a:1 -X", "expected one argument"),
        ("create e -b a:1 -X request.timeout.ms=soon", "request.timeout.ms must be a whole number, not 'soon'"),
        ("create e -b a:1 -X request.timeout.ms=0", "at least 1, not 0"),
        ("create e -b a:1 -X request.timeout.ms=", "request.timeout.ms must be a whole number, not ''"),
        ("create e -b a:1 -X security.protocol=TLS", "must be one of PLAINTEXT, SSL"),
        ("create e -b a:1 -X sasl.mechanism=MD5", "MD5"),
        ("create e -b a:1 -X enable.auto.commit=yes", "must be true or false, not 'yes'"),
        ("create e -b a:1 -X acks=7", "acks"),
        ("create e -b a:1 --command-config /none", "Cannot read /none: No such file"),
        ("create e -b a:1 --command-config /", "Cannot read /: Is a directory"),
        ("create e -b a:1 --command-config FOLDER/latin", "it is not UTF-8"),
        ("create e -b a:1 --command-config FOLDER/escape", "line 2: \\u12 is no escape"),
        ("create e --uze -b a:1", "did you mean --use?"),
        ("use", "name one profile, or give --none"),
        ("use dev --none", "name one profile, or give --none"),
        ("use none", "There is no profile none (dev): create it with `ottla profile create none -b HOST:PORT`."),
        ("use ../dev", "'../dev' cannot name a profile"),
        ("use broken", "broken.properties, line 2: \\u12 is no escape"),
        ("use latin", "latin.properties: it is not UTF-8; make it readable"),
        ("use directory", "directory.properties: Is a directory"),
        ("use --non", "did you mean --none?"),
        ("show", "required: NAME"),
        ("show none", "There is no profile none"),
        ("show latin", "it is not UTF-8"),
        ("show broken", "line 2"),
        ("show dev prod", "unknown arguments: prod"),
        ("delete", "required: NAME"),
        ("delete none", "There is no profile none"),
        ("delete directory", "directory.properties: Is a directory; delete it by hand"),
        ("delete /dev", "'/dev' cannot name a profile"),
        ("list dev", "unknown arguments: dev"),
        ("lst", "did you mean 'list'?"),
        ("--list", "unknown arguments: --list"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(commands: Commands, folder: Path, line: str, sentence: str) -> None:
    (folder / "escape").write_text("client.id=e\nsasl.password=\\u12\n")
    (folder / "latin").write_bytes(b"client.id=\xff\n")
    if "directory" in line:
        (folder / "directory.properties").mkdir()
    if "latin" in line:
        (folder / "latin.properties").write_bytes(b"client.id=\xff\n")
    if "broken" in line:
        (folder / "broken.properties").write_text("client.id=e\nsasl.password=\\u12\n")
    before = state(folder)
    commands.check_mistake("profile " + line.replace("FOLDER", str(folder)), 2, sentence)
    assert state(folder) == before


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("${env:OTTLA_NOT_SET}", "sasl.password of profile s needs the environment variable OTTLA_NOT_SET: set it."),
        ("${env:}", "'${env:}' names no source: write ${env:NAME} or ${command:WORDS}."),
        ("${env:HOME", "'${env:HOME' names no source"),
        ("${file:/etc/passwd}", "'${file:/etc/passwd}' names no source"),
        ("${command:}", "'${command:}' names no source"),
        ("${command:false}", "`false` failed (exit code 1): run it by hand to see why."),
        ("${command:sh -c 'echo locked >&2; exit 3'}", "failed (exit code 3: locked)"),
        ("${command:no-such-program}", "`no-such-program` failed (No such file or directory)"),
        ("${command:/}", "failed (Permission denied)"),
        ("${command:'}", "failed (No closing quotation)"),
        ("${command:true}", "`true` printed no first line"),
        ("${command:echo}", "`echo` printed no first line"),
        ("${command:cat}", "`cat` printed no first line"),
        ("${command:printf '\\\\377'}", "its output is not UTF-8"),
        ("${command:sleep 60}", "did not end within 0.2 s"),
        ("${command:sh -c 'sleep 60 | cat'}", "did not end within 0.2 s"),
        ("${command:kill -9 0}", "failed"),
    ],
)
def test_a_secret_that_cannot_be_read_is_one_sentence(
    commands: Commands, folder: Path, monkeypatch: pytest.MonkeyPatch, value: str, sentence: str
) -> None:
    if "kill" in value:
        value = "${command:sh -c 'kill -9 $$'}"
    monkeypatch.setattr(module, "COMMAND_TIMEOUT_S", 0.2)
    (folder / "s.properties").write_text(f"{LOGIN}sasl.password={value}\n")
    (folder / "s.properties").chmod(0o600)
    commands.check_mistake(f"cluster brokers --profile s {FAST}", 2, "sasl.password of profile s", sentence)


@pytest.mark.parametrize("text", ["gone", "../../etc/passwd", "a b", "dev\nprod", "\xff"])
def test_a_profile_in_use_that_does_not_exist_is_one_sentence_until_another_is_used(
    commands: Commands, folder: Path, text: str
) -> None:
    (folder / IN_USE).write_bytes(text.encode("latin-1") + b"\n")
    sentence = "in-use names a profile that does not exist"
    commands.check_mistake("cluster brokers", 2, sentence, "`ottla profile use NAME` or --none mends it")
    commands.check_mistake("topic list -b 127.0.0.1:1", 2, sentence)
    code, out, err = commands.run("profile list")
    assert (code, "dev " in out, err.count("\n"), sentence in err) == (1, True, 1, True)
    assert commands.run("profile use dev").code == 0
    assert commands.run("profile list").code == 0


@pytest.mark.parametrize(
    ("home", "sentence"),
    [
        (
            "/dev/null",
            "Cannot write /dev/null/ottla/profiles/e.properties: Not a directory; set XDG_CONFIG_HOME to another folder.",
        ),
        ("/proc", "Cannot write /proc/ottla/profiles/e.properties: No such file or directory"),
        ("/" + "x" * 300, "File name too long"),
    ],
)
def test_a_folder_that_cannot_be_written_is_one_sentence(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, home: str, sentence: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", home)
    commands.check_mistake("profile create e -b a:1", 2, sentence)
    commands.check_mistake("profile use e", 2, "e")
    assert commands.run("profile list")[:2] == (0, "There are no profiles: `ottla profile create NAME -b HOST:PORT` creates one.\n")


def test_a_folder_of_which_xdg_says_nothing_valid_is_in_the_home(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for home in ("relative", ".", ""):
        monkeypatch.setenv("XDG_CONFIG_HOME", home)
        assert commands.run("profile create e -b a:1").code == 0
        assert (tmp_path / "home/.config/ottla/profiles/e.properties").exists()
        assert commands.run("profile delete e").code == 0


def test_profiles_that_cannot_be_read_are_listed_and_can_be_deleted(commands: Commands, folder: Path) -> None:
    (folder / "broken.properties").write_text("client.id=e\nsasl.password=\\u12\n")
    (folder / "a b.properties").write_text("")
    code, out, err = commands.run("profile list")
    assert (code, out) == (1, "NAME    IN USE  BOOTSTRAP SERVERS\nbroken          -\ndev             127.0.0.1:1\n")
    assert "broken.properties, line 2" in err
    assert commands.run("profile delete broken")[:2] == (0, "Profile broken is deleted.\n")
    assert commands.run("profile list").code == 0


def test_a_profile_of_a_newer_release_works_without_its_new_settings(commands: Commands, folder: Path) -> None:
    (folder / "newer.properties").write_text("bootstrap.servers=127.0.0.1:1\nshiny.new=1\n")
    commands.check_mistake(f"cluster brokers --profile newer {FAST}", 1, "127.0.0.1:1 could be reached")


def test_a_secret_that_others_can_read_is_noted(commands: Commands, folder: Path) -> None:
    path = folder / "s.properties"
    path.write_text(f"{LOGIN}sasl.password=hush\n")
    path.chmod(0o644)
    err = commands.run(f"cluster brokers --profile s {FAST}").err
    assert f"ottla: other users can read {path}, which has a secret: chmod 600 it.\n" in err
    assert "hush" not in err
    path.chmod(0o600)
    assert "other users" not in commands.run(f"cluster brokers --profile s {FAST}").err
    assert "hush" not in commands.run("profile show s").out


def test_a_command_that_prints_a_secret_leaves_standard_input_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a record\n")
    os.close(writing)
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        Profiles().save("s", {"sasl.password": "${command:cat}"})
        with pytest.raises(SettingError, match="printed no first line"):
            Profiles().read("s")
        assert os.read(0, 100) == b"a record\n"
    finally:
        os.dup2(kept, 0)
        for each in (reading, kept):
            os.close(each)


USE_OFTEN = """
import sys
from ottla.cli.command.profiles import Profiles
for _ in range(100):
    Profiles().use(sys.argv[1])
    assert Profiles().in_use() in ("one", "two")
"""


def test_two_that_choose_a_profile_at_once_leave_one_of_theirs(folder: Path) -> None:
    for name in ("one", "two"):
        Profiles().save(name, {"bootstrap.servers": "a:1"})
    both = [subprocess.Popen([sys.executable, "-c", USE_OFTEN, name]) for name in ("one", "two")]
    assert [each.wait(60) for each in both] == [0, 0]
    assert Profiles().in_use() in ("one", "two")
    assert sorted(path.name for path in folder.iterdir()) == ["dev.properties", IN_USE, "one.properties", "two.properties"]
