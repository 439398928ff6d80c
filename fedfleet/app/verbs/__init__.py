"""The verbs of the command line, one file each. A verb is a function, or a `Group` of verbs; this is the list of all."""

# In the order of `fedfleet --help`.
VERBS: dict[str, str] = {
    "demo": "fedfleet.app.verbs.demo:demo",
    "run": "fedfleet.app.verbs.run:run",
    "study": "fedfleet.app.verbs.study:study",
    "report": "fedfleet.app.verbs.report:report",
    "compare": "fedfleet.app.verbs.compare:compare",
    "dashboard": "fedfleet.app.verbs.dashboard:dashboard",
    "explain": "fedfleet.app.verbs.explain:explain",
    "replay": "fedfleet.app.verbs.replay:replay",
    "verify": "fedfleet.app.verbs.verify:verify",
    "list": "fedfleet.app.verbs.list:list_parts",
    "sample": "fedfleet.app.verbs.sample:sample",
    "measure": "fedfleet.app.verbs.measure:measure",
    "shuffle": "fedfleet.app.verbs.shuffle:shuffle",
    "serve": "fedfleet.app.verbs.serve:serve",
    "device": "fedfleet.app.verbs.device:device",
    "status": "fedfleet.app.verbs.status:status",
    "token": "fedfleet.app.verbs.token:token",
    "certificate": "fedfleet.app.verbs.certificate:certificate",
    "stress": "fedfleet.app.verbs.stress:stress",
    "data": "fedfleet.app.verbs.data:data",
    "pretrain": "fedfleet.app.verbs.pretrain:pretrain",
    "profile": "fedfleet.app.verbs.profile:profile",
    "bench": "fedfleet.app.verbs.bench:bench",
    "version": "fedfleet.app.verbs.version:version",
}
