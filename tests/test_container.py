"""The Dockerfile and compose.yaml name what exists, and their steps work in a bare Debian.

No container engine is needed: the slow test runs the steps of the Dockerfile in a root file system
made by debootstrap, then the service as its user with that file system mounted read-only.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from slotwise.service.settings import ENVIRONMENT_PREFIX, load_settings
from tests.docs.test_shell_examples import check_command
from tests.system_programs import system_program

ROOT = Path(__file__).resolve().parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
REPLICAS = [name for name in COMPOSE["services"] if name.startswith("slotwise-")]


def steps() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    parted = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in parted]


def of(instruction: str) -> list[str]:
    return [rest for name, rest in steps() if name == instruction]


def variables(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(text))


def settings_in(environment: dict[str, str]) -> dict[str, str]:
    return {name: one for name, one in environment.items() if name.startswith(ENVIRONMENT_PREFIX)}


def filled_in(value: str) -> str:
    """Return a value of compose.yaml with its variables replaced."""
    examples = {"PUBLIC_URL": "https://links.example", "POSTGRES_PASSWORD": "secret"}
    return re.sub(r"\$\{(\w+):[?-][^}]*\}", lambda found: examples.get(found[1], ""), value)


def test_the_image_starts_commands_that_exist() -> None:
    [entry], [command] = of("ENTRYPOINT"), of("CMD")
    check_command(" ".join([*json.loads(entry), *json.loads(command)]), is_whole=True)
    own = [one for run in of("RUN") for one in re.findall(r"/bin/(slotwise .+)", run)]
    assert own
    for line in own:
        check_command(line, is_whole=True)


def test_the_image_copies_what_is_there() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    for line in of("COPY"):
        *sources, target = line.split()
        if sources[0].startswith("--from="):
            assert sources[1:] == [target]
            continue
        for source in sources:
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert set(build["targets"]["wheel"]["force-include"]) <= set(" ".join(of("COPY")).split())


def test_the_image_sets_settings_that_exist() -> None:
    environment = {key: value for line in of("ENV") for key, value in variables(line).items()}
    settings = load_settings(None, settings_in(environment), {})
    assert settings.host == "0.0.0.0"
    assert settings.port == int(of("EXPOSE")[0])
    assert settings.store.startswith(f"sqlite:///{of('VOLUME')[0]}/")
    assert f"http://127.0.0.1:{settings.port}/healthz" in of("HEALTHCHECK")[0]
    assert of("USER") == ["slotwise"]


def test_replicas_set_settings_that_exist() -> None:
    assert len(REPLICAS) == 2
    [network] = COMPOSE["networks"]["default"]["ipam"]["config"]
    for name in REPLICAS:
        replica = COMPOSE["services"][name]
        environment = {key: filled_in(value) for key, value in replica["environment"].items()}
        settings = load_settings(None, settings_in(environment), {})
        assert settings.proxy_networks == (network["subnet"],)
        assert replica["read_only"] is True
        database = COMPOSE["services"]["database"]["environment"]
        user, name = database["POSTGRES_USER"], database["POSTGRES_DB"]
        assert settings.store == f"postgresql://{user}@database/{name}"


def test_services_and_files_of_compose_exist() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            made_by_user = source == "./deploy/tls"
            assert made_by_user or source in COMPOSE["volumes"] or (ROOT / source).exists()
    upstream = re.findall(r"server ([\w-]+):(\d+)", (ROOT / "deploy" / "nginx.conf").read_text())
    assert upstream == [(name, of("EXPOSE")[0]) for name in REPLICAS]


@pytest.mark.system
def test_nginx_takes_the_configuration(tmp_path: Path) -> None:
    nginx = system_program("nginx", package="nginx")
    openssl = system_program("openssl", package="openssl")
    names = ("-keyout", f"{tmp_path}/server.key", "-out", f"{tmp_path}/server.pem")
    certificate = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost")
    run(openssl, *certificate, *names)
    text = (ROOT / "deploy" / "nginx.conf").read_text().replace("/etc/nginx/tls", str(tmp_path))
    text = re.sub(r"slotwise-\d:", "127.0.0.1:", text)
    text = re.sub(r"listen (\d+)", rf"listen unix:{tmp_path}/\1", text)
    whole = f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{ access_log off;\n{text}}}\n"
    (tmp_path / "nginx.conf").write_text(whole)
    run(nginx, "-t", "-e", f"{tmp_path}/log", "-c", f"{tmp_path}/nginx.conf")


SERVE = """
set -eu
cd /tmp
slotwise keys make admin --label test --store "$SLOTWISE_STORE" >key
slotwise serve >log 2>&1 &
for attempt in $(seq 300); do
    if {health} 2>/dev/null; then break; fi
    sleep 0.2
done
{health} || {{ cat log; exit 1; }}
! touch /srv/slotwise/written 2>/dev/null
id -u
python -c "$PLAY"
kill -TERM $!
wait $! || true
"""
PLAY = """
import slotwise
from slotwise.compile import switch
selector = slotwise.Selector(list("abcde"), 2, click_floor=0.2)
page = selector.select()
selector.update(page, clicks=[page.shown[0]], revenue={})
codes = switch._codes.values()
print(len([c for c in codes if c.call not in (c._first_call, c._measured, c._interpreted)]) > 0)
print([c.function.__name__ for c in codes if c.call in (c._measured, c._interpreted)])
"""
MOUNTED = """
set -eu
mount --bind {fs} {fs}
mount --bind {data} {fs}/var/lib/slotwise
mount -o remount,bind,ro {fs}
mount -t tmpfs none {fs}/tmp
{python} -c 'import fcntl, socket, struct
up = struct.pack("16sH14x", b"lo", 1)
fcntl.ioctl(socket.socket(), 0x8914, up)'
exec {chroot} --userspec=slotwise {fs} /bin/sh -c "$SERVE"
"""
"""Run the service with its root file system read-only, in a network of its own."""


class Image:
    """A root file system in which the steps of the Dockerfile are run."""

    def __init__(self, folder: Path) -> None:
        self.fs = folder / "fs"
        self.folder = Path("/")
        self.environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        program = system_program("debootstrap", package="debootstrap")
        packages = "--include=python3-venv,python-is-python3"
        run(program, "--variant=minbase", packages, "bookworm", self.fs)

    def run(self, command: str) -> str:
        inside = f"cd {self.folder} && {command}"
        return run("chroot", self.fs, "/bin/sh", "-euc", inside, environment=self.environment)

    def follow(self, instruction: str, rest: str) -> None:
        """Do what an instruction says; both stages of the Dockerfile share the file system."""
        if instruction == "RUN":
            self.run(rest)
        elif instruction == "ENV":
            self.environment |= variables(rest)
        elif instruction == "WORKDIR":
            self.folder = Path(rest)
            self.inside(rest).mkdir(parents=True, exist_ok=True)
        elif instruction == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            for source in sources:
                self.copy(ROOT / source, self.folder / target)

    def inside(self, path: str | Path) -> Path:
        return self.fs / Path(path).relative_to("/")

    def copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            unneeded = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, self.inside(target), ignore=unneeded)
        else:
            shutil.copy(source, self.inside(target))


def run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def wheels_for(version: str, folder: Path) -> None:
    """Download what the image installs: a root file system has no network of its own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    listed = [*project["project"]["dependencies"], *extras["service"], *extras["postgresql"]]
    wanted = [one for one in listed if not one.startswith("slotwise")]
    needed = [*wanted, *project["build-system"]["requires"]]
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:")
    run(*pip, "--python-version", version, "--dest", folder, *needed)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root")
def test_the_steps_work_in_a_bare_debian(tmp_path: Path) -> None:
    image = Image(tmp_path)
    version = image.run("python -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").strip()
    wheels_for(version, image.fs / "wheels")
    image.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    for instruction, rest in steps():
        image.follow(instruction, rest)
    shutil.rmtree(image.fs / "wheels")
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, 10001, 10001)
    health = shlex.join(json.loads(of("HEALTHCHECK")[0].partition("CMD ")[2]))
    chroot = system_program("chroot", package="coreutils")
    script = MOUNTED.format(fs=image.fs, data=data, python=sys.executable, chroot=chroot)
    environment = {**image.environment, "SERVE": SERVE.format(health=health), "PLAY": PLAY}
    out = run("unshare", "--mount", "--net", "sh", "-c", script, environment=environment)
    assert out.splitlines() == ["10001", "True", "[]"]
    assert (data / "slotwise.db").exists()
