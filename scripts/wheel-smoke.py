"""What an installed wheel must do; run by scripts/wheel in a venv of its own, outside the project."""

import subprocess
import sys

import coldset

trace = sys.argv[1]
out = subprocess.run(["coldset", "--version"], check=True, capture_output=True, text=True).stdout
assert out.strip() == f"coldset {coldset.__version__}", out
run = ["coldset", "lab", "replay", trace, "--memory", "25%", "--variants", "v5"]
table = subprocess.run(run, check=True, capture_output=True, text=True).stdout
assert "693,790 accesses" in table, table
wrong = subprocess.run(["coldset", "lab", "run", "nothing"], capture_output=True, text=True)
assert wrong.returncode == 2 and wrong.stderr.startswith("coldset: "), wrong

try:
    coldset.probe()
except coldset.MissingFeature as missing:
    print(f"no pool: {missing}")
else:
    pool = coldset.Pool("4MiB", swap="lz4:64MiB")
    a = pool.zeros((16, 65536))
    a[:] = 2.0
    assert a.sum() == 2 * a.size and pool.stats()["resident_bytes"] <= 4 << 20
    del a
print("the wheel works")
