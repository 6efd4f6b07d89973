"""The lines of Python on docs/user/evaluate_and_predict.md make pt2, TorchScript and ONNX of a checkpoint's weights, with equal outputs."""
import os
import pathlib

import pytest
import stored_models

pytestmark = [pytest.mark.python, pytest.mark.long]
PAGE = pathlib.Path(os.environ["ROLLCALL_SOURCE_DIR"]) / "docs" / "user" / "evaluate_and_predict.md"


def test_the_lines_of_the_page_make_three_files_with_equal_outputs(tmp_path, monkeypatch):
    import torch
    onnxruntime = pytest.importorskip("onnxruntime", reason="no onnxruntime (scripts/setup --python)")
    stored = stored_models.train(tmp_path / "trained", stored_models.make_tree(tmp_path / "tree"), "--epochs=1")
    stored_models.export(stored, tmp_path / "resnet18.pth")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(PAGE.read_text().split("```python\n")[1].split("```")[0], str(PAGE), "exec"), names)
    images = torch.randn(3, 3, 224, 224)
    wanted = names["model"](images).detach()
    assert wanted.shape == (3, 8)
    torch.testing.assert_close(torch.export.load("resnet18.pt2").module()(images).detach(), wanted, rtol=0, atol=0)
    torch.testing.assert_close(torch.jit.load("resnet18.torchscript")(images).detach(), wanted, rtol=1e-5, atol=1e-5)
    session = onnxruntime.InferenceSession("resnet18.onnx")
    [found] = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), wanted, rtol=1e-3, atol=1e-3)
