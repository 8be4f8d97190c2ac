"""The TensorFlow cases: Cairn and TensorFlow itself restore, list and save TensorFlow checkpoints."""

from cases import CAIRN, Aim, Case, Contender, cairn, peer
from save_cases import BENCH, FLOOR, floor
from save_cases import peer as save_peer


def tensorflow_cases(data):
    large, many, target = data / "large", data / "many", data / "saved"
    model = large / "model.safetensors"
    return [
        Case("tf_save", "Save 1 GiB of float32 in eight arrays as a TensorFlow checkpoint", "large", [
            Contender("Cairn", [BENCH, "save-tensorflow", model, target], model), floor(FLOOR, "floor-direct", model, target),
            save_peer("TensorFlow SaveV2 + fsync", "tensorflow", model, target, "sync"), save_peer("TensorFlow SaveV2, not synced", "tensorflow", model, target)], target=target),
        Case("tf_load", "Restore 1 GiB of float32 from a TensorFlow checkpoint, every checksum verified", "large", [
            cairn("load", large / "tf"), cairn("floor-pread", large / "tf", name="floor: pread into huge pages"),
            peer("TensorFlow RestoreV2", "tensorflow", "load", large / "tf"), peer("TensorFlow load_checkpoint", "tensorflow_reader", "load", large / "tf")]),
        Case("tf_load_many", "Restore 10,000 tensors of 4 KiB from a TensorFlow checkpoint", "many", [
            cairn("load", many / "tf"), peer("TensorFlow RestoreV2", "tensorflow", "load", many / "tf")]),
        Case("tf_list", "Cold process to the list of 10,000 tensors of a TensorFlow checkpoint", "many", [
            Contender("Cairn", [CAIRN, "ls", many / "tf"], many / "tf"), peer("tf.train.list_variables", "tensorflow", "list", many / "tf")], whole_process=True),
    ]


TENSORFLOW_AIMS = [Aim(case, "TensorFlow RestoreV2", "Cairn", 1, least=True) for case in ("tf_load", "tf_load_many")] + [Aim("tf_save", "TensorFlow SaveV2 + fsync", "Cairn", 1, least=True)] + [Aim("tf_list", "Cairn", "", 0.050)]
