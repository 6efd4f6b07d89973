"""What rollcall-train means, said once more in Python: an independent reference for the tests of whole trainings.

`random_numbers` has the documented generators, `order` which sample comes when, `pictures` what becomes of an image (Pillow and
torchvision), `training` the loop (torch and torchvision's ResNets, one process for all ranks). Written after the documentation and
the papers, with torch's own optimizers, autocast and loss scaler: where a rollcall-train and this disagree, one of them is wrong.
"""
