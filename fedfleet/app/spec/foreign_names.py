"""What settings are called in other tools, and which key of a spec means the same: Flower, FedML, LEAF, FedScale, plain PyTorch."""

from __future__ import annotations

# {} is the value that was typed. What has no {} sets a value of its own, or says where to look.
_KEYS: dict[str, tuple[str, ...]] = {
    "stop.rounds={}": ("num_rounds", "n_rounds", "nrounds", "comm_round", "comm_rounds", "communication_rounds", "global_rounds",
                       "server_rounds", "num_server_rounds", "total_rounds", "max_rounds", "global_epochs"),
    "world.clients={}": ("num_clients", "n_clients", "nclients", "num_users", "client_num_in_total", "total_clients",
                         "total_worker", "num_supernodes", "num_partitions", "n_parties"),
    "pace.cohort={}": ("clients_per_round", "client_num_per_round", "num_clients_per_round", "num_participants", "cohort_size",
                       "min_fit_clients", "sample_clients", "total_worker_per_round"),
    "pace.cohort=NUMBER": ("fraction_fit", "fraction", "frac", "participation", "participation_rate", "client_fraction",
                           "sample_fraction", "sampling_rate"),
    "algorithm.batch={}": ("batch_size", "batchsize", "bs", "local_bs", "local_batch_size", "train_batch_size", "train_bs"),
    "algorithm.epochs={}": ("local_epochs", "num_epochs", "n_epochs", "local_ep", "client_epochs", "local_iterations", "epoch"),
    "algorithm.steps={}": ("local_steps", "num_steps", "max_steps"),
    "algorithm.lr={}": ("learning_rate", "learningrate", "client_lr", "local_lr", "lr_client", "eta", "client_learning_rate"),
    "algorithm.momentum={}": ("sgd_momentum",),
    "algorithm.weight_decay={}": ("wd", "l2"),
    "algorithm.optimiser={}": ("optimizer", "client_optimizer", "optim"),
    "algorithm.use={}": ("algorithm", "strategy", "method", "aggregator", "federated_optimizer", "algo", "fl_algorithm"),
    "choose.use={}": ("selector", "selection", "client_selection", "sampler"),
    "pace.seconds={}": ("timeout", "round_timeout"),
    "world.data.use={}": ("partition", "partitioner", "partition_method"),
    "world.data.alpha={}": ("dirichlet_alpha", "partition_alpha", "non_iid_alpha"),
    "seed={}": ("random_seed", "manual_seed", "rng_seed"),
    "stop.target_accuracy={}": ("target", "target_acc"),
    "stop.evaluate_every={}": ("eval_every", "test_every", "frequency_of_the_test", "eval_frequency"),
    "run.device=cuda": ("gpu", "gpus", "num_gpus", "cuda", "use_cuda", "use_gpu", "gpu_id", "n_gpus"),
    "run.workers={}": ("num_workers", "n_workers", "processes"),
    "run.threads={}": ("num_threads", "n_threads", "num_cpus"),
    "task.use={}": ("dataset", "model", "task", "data_name", "dataset_name", "model_name", "net", "arch"),
}  # fmt: skip
_BY_NAME = {name: key for key, names in _KEYS.items() for name in names}
# Which kind of part the value names, and so where its names are listed.
_KINDS = {"task.use": "tasks", "algorithm.use": "algorithms", "choose.use": "selectors", "world.data.use": "partitions"}


def key_for(name: str, value: str = "VALUE") -> str:
    """KEY=VALUE for a setting as other tools call it; "" if no key is known to mean the same.

    >>> key_for("batch-size", "32"), key_for("gpus", "1"), key_for("fraction_fit", "0.1"), key_for("x")
    ('algorithm.batch=32', 'run.device=cuda', 'pace.cohort=NUMBER', '')
    """
    return _BY_NAME.get(name.lower().replace("-", "_"), "").format(value)


def where_listed(setting: str) -> str:
    """The command that lists the values of a key that names a part; "" for other keys.

    >>> where_listed("task.use=resnet18"), where_listed("algorithm.lr=0.1")
    ('fedfleet list tasks', '')
    """
    kind = _KINDS.get(setting.partition("=")[0], "")
    return f"fedfleet list {kind}" if kind else ""
