"""batchplan.torch.run_id on two processes."""

import subprocess
import sys

import pytest
from processes import free_port

pytest.importorskip("torch")

WORKER = """
import sys
from torch import distributed
from batchplan.torch import run_id

rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
groups = [distributed.new_group([one]) for one in range(2)]
print(run_id(), run_id(), run_id(groups[rank]))
distributed.destroy_process_group()
"""


def test_a_run_has_one_name_on_all_ranks_and_another_every_time():
    address = f"tcp://127.0.0.1:{free_port()}"
    ranks = [subprocess.Popen([sys.executable, "-c", WORKER, str(rank), address], stdout=subprocess.PIPE, text=True)
             for rank in range(2)]
    names = [rank.communicate(timeout=180)[0].split() for rank in ranks]
    assert names[0][:2] == names[1][:2]
    assert len({*names[0], *names[1]}) == 4
    assert all(len(name) == 32 for name in names[0])


def test_without_a_process_group_there_is_no_name():
    from batchplan.torch import run_id

    with pytest.raises((RuntimeError, ValueError)):
        run_id()
