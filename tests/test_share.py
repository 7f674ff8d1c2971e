"""A learned scheduler reaches others: its card, a pipeline that loads by trust_remote_code, the hub."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from diffusers import DiTPipeline
from huggingface_hub import hf_api

import dualsolver as ds
import tiny
from conftest import drawn
from dualsolver.diffusers import DualSolverScheduler
from dualsolver.share import write_portable

FACTS = {"backbone": "facebook/DiT-XL-2-256", "guidance": 1.5, "objective": {"hard-label": 1.0}}
FRESH = """
import sys
import numpy as np, torch
from diffusers import DiffusionPipeline

torch.set_num_threads(1)
assert "dualsolver" not in sys.modules
pipe = DiffusionPipeline.from_pretrained(sys.argv[1], trust_remote_code=True)
pipe.set_progress_bar_config(disable=True)
generator = torch.Generator().manual_seed(0)
found = pipe([1, 2], generator=generator, num_inference_steps=4, guidance_scale=1.5, output_type="np").images
np.save(sys.argv[2], found)
"""


@pytest.fixture
def learned(tmp_path):
    ds.save([drawn(3, gamma=0.4), drawn(5, gamma=0.4)], tmp_path / "learned", **FACTS)
    return tmp_path / "learned"


def test_a_saved_pipeline_loads_where_nobody_has_imported_this_package(learned, tmp_path):
    pipe = DiTPipeline.from_pretrained(tiny.dit(tmp_path / "dit"))
    pipe.set_progress_bar_config(disable=True)
    pipe.scheduler = DualSolverScheduler.from_config(pipe.scheduler.config, solver=learned)
    generator = torch.Generator().manual_seed(0)
    wanted = pipe([1, 2], generator=generator, num_inference_steps=4, guidance_scale=1.5, output_type="np")
    pipe.save_pretrained(tmp_path / "saved")
    write_portable(tmp_path / "saved")
    for name in ("model_index.json", "scheduler/scheduler_config.json"):
        assert str(tmp_path) not in (tmp_path / "saved" / name).read_text()
    command = [sys.executable, "-c", FRESH, str(tmp_path / "saved"), str(tmp_path / "found.npy")]
    subprocess.run(command, env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")}, check=True)
    assert np.array_equal(np.load(tmp_path / "found.npy"), wanted.images)
    with pytest.raises(ValueError, match="no pipeline saved with a DualSolverScheduler"):
        write_portable(tmp_path / "dit")


FETCH = """
import sys
from dualsolver.hub import artifact

print(artifact("someone/few-steps").read_text(), end="")
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as an upload and a download take; `held` are its files."""

    held: dict[str, str]

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        url = f"http://{self.headers['Host']}/someone/few-steps"
        answer = {"errors": [], "warnings": [], "url": url}
        if "/preupload/" in self.path:
            files = [
                {**file, "uploadMode": "regular", "shouldIgnore": False} for file in json.loads(body)["files"]
            ]
            answer = {"files": files}
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"]).decode()
                    self.held[line["value"]["path"]] = content
            answer = {"commitUrl": f"{url}/commit/0", "commitOid": "0" * 40, "success": True}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def do_HEAD(self):
        content = self.held[self.path.partition("/someone/few-steps/resolve/main/")[2]].encode()
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return content

    def do_GET(self):
        self.wfile.write(self.do_HEAD())

    def log_message(self, *_):
        pass


def test_what_is_pushed_is_what_others_load(learned, tmp_path, monkeypatch):
    held = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Hub,), {"held": held}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(hf_api.api, "endpoint", address)
    options = {"prediction": "noise", "schedule": ds.VP.linear()}
    scheduler = DualSolverScheduler.from_pretrained(learned, **options)
    scheduler.push_to_hub("someone/few-steps", token="none")
    here = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", FETCH]
    fetched = subprocess.run(command, env=here, check=True, capture_output=True, text=True).stdout
    server.shutdown()
    assert fetched == held["scheduler_config.json"]
    assert sorted(held) == ["README.md", "dual_solver_scheduler.py", "scheduler_config.json"]
    for name, content in held.items():
        (tmp_path / name).write_text(content)
    again = DualSolverScheduler.from_pretrained(tmp_path)
    assert again.config.solvers == scheduler.config.solvers
    card = held["README.md"]
    assert card.startswith("---\nlibrary_name: diffusers\n")
    assert "base_model: facebook/DiT-XL-2-256\n" in card
    assert "pipe.scheduler = DualSolverScheduler.from_pretrained('someone/few-steps')\n" in card
    assert "images = pipe(..., num_inference_steps=5, guidance_scale=1.5).images\n" in card
    assert "for 3, 5 network evaluations" in card
    assert "| guidance | 1.5 |" in card
