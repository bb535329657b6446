"""Guests for the scripts that ask kernels: a kernel that `coldset kernel play` has fetched, an initramfs with one program."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

COMMAND_LINE = "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off random.trust_cpu=on oops=panic rootfstype=ramfs damon_stat.enabled=0"
# A nanosecond an instruction, whatever else the host does.
VIRTUAL_TIME = ["-icount", "shift=0,sleep=off", "-rtc", "clock=vm,base=2026-01-01"]


def fail(text: str):
    sys.exit(f"{Path(sys.argv[0]).name}: {text}")


def packages() -> Path:
    cache = os.environ.get("COLDSET_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coldset"
    return Path(cache) / "kernels" / "packages"


def kernel(version: str) -> tuple[Path, Path]:
    """The bootable file and the modules of an unpacked kernel."""
    found = sorted(p for p in packages().glob(f"{version}*") if re.match(rf"{re.escape(version)}(\D|$)", p.name))
    for folder in reversed(found):
        for modules in [*folder.glob("usr/lib/modules/*"), *folder.glob("lib/modules/*")]:
            for image in (modules / "vmlinuz", folder / "boot" / f"vmlinuz-{modules.name}"):
                if image.is_file():
                    return image, modules
    fail(f"no kernel {version} in {packages()}: run `coldset kernel play --kernel debian:{version}` once")


def unpack(path: Path) -> bytes:
    tool = {".xz": "xz", ".zst": "zstd"}.get(path.suffix)
    return subprocess.run([tool, "-dc", path], check=True, capture_output=True).stdout if tool else path.read_bytes()


def add_module(name: str, modules: Path, lib: Path, order: list[str]):
    """A module after those that it depends on. What is not there is built in."""
    spellings = {name, name.replace("-", "_"), name.replace("_", "-")}
    found = [p for s in spellings for p in modules.rglob(f"{s}.ko*")]
    if name in order or not found:
        return
    content = unpack(found[0])
    depends = re.search(rb"depends=([^\0]*)\0", content).group(1).decode()
    for other in filter(None, depends.split(",")):
        add_module(other, modules, lib, order)
    (lib / f"{name}.ko").write_bytes(content)
    order.append(name)


def initramfs(modules: Path, wanted: list[str], source: Path, folder: Path, files: list[Path] = []) -> Path:
    """BusyBox, `init` of the source's folder, the program, named as the folder, and the modules, in the order of `lib/order`; the other files
    in `lib`."""
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    (root / "lib").mkdir()
    busybox = shutil.which("busybox") or fail("no busybox: install busybox-static")
    shutil.copy(busybox, root / "bin" / "busybox")
    shutil.copy(source.parent / "init", root / "init")
    (root / "init").chmod(0o755)
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-static", "-o", root / source.parent.name, source, "-lm"], check=True)
    for file in files:
        shutil.copy(file, root / "lib")
    order: list[str] = []
    for name in wanted:
        add_module(name, modules, root / "lib", order)
    (root / "lib" / "order").write_text("\n".join(order))
    names = "\n".join(str(p.relative_to(root)) for p in sorted(root.rglob("*")))
    packed = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), cwd=root, check=True, capture_output=True)
    out = folder / "initramfs.gz"
    out.write_bytes(gzip.compress(packed.stdout, 1, mtime=0))
    return out


def boot(image: Path, initrd: Path, memory_mib: int, extra: list[str], append: str, folder: Path, timeout: int = 3600, cpus: int = 1) -> tuple[str, str]:
    """Boots a guest, with one emulated CPU unless told otherwise, and waits for its end. What came from its second and from its first serial line."""
    console, result = folder / "console", folder / "result"
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=single,tb-size=256", *extra]
    command += ["-cpu", "max", "-smp", str(cpus), "-m", str(memory_mib), "-display", "none", "-no-reboot", "-nodefaults"]
    command += ["-serial", f"file:{console}", "-serial", f"file:{result}", "-kernel", image, "-initrd", initrd]
    subprocess.run([*command, "-append", f"{COMMAND_LINE} {append}"], check=True, timeout=timeout)
    return tuple(p.read_text(errors="replace").replace("\r", "") for p in (result, console))
