"""The routes of the dashboard: what each address answers, and the guard in front of them all."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedfleet.app.dashboard import pages
from fedfleet.app.dashboard.auth import Access, cookie, is_read_token, refusal, response_headers
from fedfleet.app.dashboard.event_stream import SideInfo, stream
from fedfleet.app.dashboard.example_specs import EXAMPLES
from fedfleet.app.dashboard.form_html import form, form_messages, part_list, part_menu
from fedfleet.app.dashboard.new_run_form import TOML, FormCheck, Mistake, check_form, fill_form, locate_mistake
from fedfleet.app.dashboard.pages import frame, login_page, two_columns
from fedfleet.app.dashboard.run_filter import filter_runs
from fedfleet.app.dashboard.run_groups import GroupedRuns, RunGrouper, Selection
from fedfleet.app.dashboard.run_list import MAX_COMPARED, ListState, run_address, run_list, run_rows
from fedfleet.app.dashboard.run_processes import Starter, end_reason
from fedfleet.app.dashboard.run_watcher import DAMAGED, FINISHED, RUNNING, FollowedRun, RunSummary, RunWatcher, is_run
from fedfleet.app.dashboard.served_runs import read_server_status, server_log_lines
from fedfleet.app.dashboard.status_text import most_similar_run
from fedfleet.app.terminal.answers import say
from fedfleet.core.errors import FedFleetError
from fedfleet.core.registry import KINDS

_MAX_BODY = 64 * 1024
_REFRESH_SECONDS = 1.0
_START_SECONDS = 20.0  # that a new run may take to have its folder before one looks elsewhere
_MAX_FIELDS = 500  # of a form
_MAX_SOURCES = 100  # runs that a new one can begin with
_STUDY_SUFFIX = re.compile(r"-s[\d-]+-[0-9a-f]{16}$")  # seed and digest, in the folder of a study's run
_KEY = re.compile(r"[\w.\[\]]{1,200}")  # of a part
_TYPES = {".parquet": "application/octet-stream", ".js": "text/javascript", ".css": "text/css"}
# Beside its page, the files of a group that its page leads to.
_EXPORTS = ("results.csv", "results.md", "results.tex", "results.parquet", "runs.csv", "study.json", "tune.json")
_RUN_PAGES = ("report.html", "explain.html")


@dataclass(slots=True)
class Site:
    """What the routes share: what is watched, what was started, who may come in; `closing` ends all open streams."""

    watcher: RunWatcher
    starter: Starter
    access: Access
    closing: bool = False
    statics: Mapping[str, bytes] = field(default_factory=lambda: _static_files())
    grouper: RunGrouper = field(init=False)

    def __post_init__(self) -> None:
        self.grouper = RunGrouper(self.watcher.root)

    def grouped(self) -> GroupedRuns:
        """All runs in their groups."""
        return self.grouper.group(self.watcher.summaries)

    def side_info(self, run: RunSummary) -> SideInfo:
        """What a run printed, and what its server logs and says."""
        server_status = read_server_status(run.folder) if run.served and run.status == RUNNING else None
        return SideInfo((*server_log_lines(run.folder), *self.starter.output_lines(run.name)), server_status)


def site_app(site: Site) -> ASGIApp:
    """The application, behind its guard."""

    async def keep_fresh() -> None:
        while not site.closing:
            await asyncio.sleep(_REFRESH_SECONDS)
            await asyncio.to_thread(site.watcher.refresh)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(site.watcher.refresh)
        task = asyncio.create_task(keep_fresh())
        asyncio.get_running_loop().run_in_executor(None, site.grouped)  # the first time it takes a second
        yield
        site.closing = True
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def make_route(answer: Callable[[Site, Request], Any]) -> Callable[[Request], Any]:
        async def route(request: Request) -> Response:
            try:
                return await answer(site, request)
            except FedFleetError as error:
                if "hx-request" in request.headers:
                    return HTMLResponse(f'<span class="bad">{escape(str(error))}</span>')
                return PlainTextResponse(str(error), 400)
            except Exception as error:  # a page that fails takes nothing else with it
                say(f"the dashboard could not answer {request.url.path}: {type(error).__name__}: {error}")
                return PlainTextResponse("The dashboard failed here; its terminal says why.", 500)

        return route

    get: Mapping[str, Any] = {
        "/": _home, "/new": _new, "/runs/{name:path}": _run_page, "/list": _list, "/events": _events, "/starting": _starting,
        "/device": _device, "/report/": _compare, "/report/{name:path}": _report, "/static/{name}": _static, "/enter": _login,
    }  # fmt: skip
    post: Mapping[str, Any] = {
        "/check": _check, "/fields": _fields, "/start": _start, "/stop": _stop, "/resume": _resume, "/report": _make_report,
        "/enter": _check_login,
    }  # fmt: skip
    routes = [Route(path, make_route(answer), methods=["GET"]) for path, answer in get.items()]
    routes += [Route(path, make_route(answer), methods=["POST"]) for path, answer in post.items()]
    return _guard_app(Starlette(routes=routes, lifespan=lifespan), site.access)


def _guard_app(inner: ASGIApp, access: Access) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await inner(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        extra_headers = [(k.encode(), v.encode()) for k, v in response_headers(scope["path"], tls=access.tls).items()]

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *extra_headers]
            await send(message)

        denial = refusal(access, scope["method"], scope["path"], headers)
        if denial is None:
            await inner(scope, receive, guarded_send)
        elif denial[0] == 401 and scope["method"] == "GET" and scope["path"] != "/events":
            await RedirectResponse("/enter", 303)(scope, receive, guarded_send)
        else:
            await PlainTextResponse(denial[1], denial[0])(scope, receive, guarded_send)

    return app


async def _home(site: Site, request: Request) -> Response:
    runs = site.watcher.summaries
    current = next((name for name, run in runs.items() if run.status != DAMAGED), next(iter(runs), ""))
    return await _page(site, request, current, list_first=True)


async def _run_page(site: Site, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in site.watcher.summaries:
        await asyncio.to_thread(site.watcher.refresh)  # it may have begun this moment
    if name in site.watcher.summaries:
        return await _page(site, request, name)
    started = name in site.starter.started
    main = pages.waiting_page(name) if started else "<h1>There is no such run</h1>"
    body = two_columns(_sidebar(site, request, ""), main)
    return HTMLResponse(frame(site.access, f"FedFleet: {name if started else 'no such run'}", body), 200 if started else 404)


async def _page(site: Site, request: Request, name: str, *, list_first: bool = False) -> Response:
    grouped = await asyncio.to_thread(site.grouped)

    def live(run: RunSummary, followed: FollowedRun) -> str:
        side_info, other = site.side_info(run), most_similar_run(run, site.watcher.summaries.values(), grouped.title)
        return pages.live_page(run, followed, other, side_info.log, side_info.server_status, grouped.title(run))

    main = await asyncio.to_thread(site.watcher.inspect, name, live)
    current = name if main and not list_first else ""  # whose group is open; at home all are shut
    body = two_columns(_sidebar(site, request, current), main or pages.empty_page(), list_first=list_first)
    return HTMLResponse(frame(site.access, f"FedFleet: {name}" if main else "FedFleet: runs", body, run=name if main else ""))


async def _new(site: Site, request: Request) -> Response:
    """The form of a new run."""
    source = request.query_params.get("from", "")
    main = await asyncio.to_thread(_form, site, source)
    return HTMLResponse(frame(site.access, "FedFleet: new run", two_columns(_sidebar(site, request, ""), main), at="/new"))


def _form(site: Site, source: str) -> str:
    run, example = site.watcher.summaries.get(source), EXAMPLES.get(source.removeprefix("example:"))
    values = {"name": f"run-{next(n for n in range(1, 10_000) if not (site.watcher.root / f'run-{n}').exists())}"}
    if run is not None:
        name = _STUDY_SUFFIX.sub("", run.name.rpartition("/")[2])
        values = fill_form(run.table, f"{name[:56]}-again")
    elif example is not None:
        values = fill_form(example.table, values["name"])
    return form(values, _sources(site, run), source if run or example else "", can_start=not is_run(site.watcher.root))


def _sources(site: Site, run: RunSummary | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """What a new run can begin with: the run that was chosen, examples, the runs of no group, and the first run of each arm."""
    grouped = site.grouped()
    chosen = [] if run is None else [(run.name, grouped.title(run))]
    examples = [(f"example:{key}", example.title) for key, example in EXAMPLES.items()]
    singles = [(run.name, run.name) for run in grouped.singles if run.table]
    arms = [(arm.runs[0].name, f"{group.name}: {arm.name}") for group in grouped.groups.values() for arm in group.arms]
    singles, arms = ([one for one in options if one not in chosen][:_MAX_SOURCES] for options in (singles, arms))
    return [("this run", chosen), ("examples", examples), ("runs", singles), ("runs of studies and searches", arms)]


async def _fields(site: Site, request: Request) -> Response:
    """The menu and the settings of another part; the form is checked once they are there."""
    del site
    values = await _read_form(request)
    key, kind, whole = values.pop("part", ""), values.pop("kind", ""), values.pop("list", "")
    if not _KEY.fullmatch(key) or kind not in KINDS or (whole and not _KEY.fullmatch(whole)):
        raise FedFleetError("There is no such menu; load the page again.")
    default = values.pop("default", "")
    piece = part_list(whole, kind, values) if whole else part_menu(key, kind, values, default)
    return HTMLResponse(piece, headers={"HX-Trigger-After-Settle": "fields-changed"})


def _sidebar(site: Site, request: Request, current: str) -> str:
    state = _list_state(request, current)
    return run_list(run_rows(site.watcher.summaries, site.grouped(), state), state)


def _list_state(request: Request, current: str) -> ListState:
    """What a reader has set of the list."""
    query = request.query_params
    opened, shut, toggled = set(query.getlist("open")), set(query.getlist("shut")), query.get("toggle", "")
    if toggled:
        was_open = query.get("was") == "open"
        opened, shut = (opened - {toggled}, shut | {toggled}) if was_open else (opened | {toggled}, shut - {toggled})
    clear = "clear" in query
    ticked = Selection() if clear else Selection(*(list(dict.fromkeys(query.getlist(key))) for key in ("run", "arm", "group")))
    flat = query.get("view") == "all"
    return ListState(query.get("filter", ""), query.get("by", ""), flat, sorted(opened), sorted(shut), ticked, current)


async def _starting(site: Site, request: Request) -> Response:
    """How a run stands that has no folder yet."""
    name = request.query_params.get("run", "")
    if name in site.watcher.summaries:
        return Response(headers={"HX-Redirect": run_address(name)})
    started = site.starter.started.get(name)
    return HTMLResponse(pages.waiting_piece(name, "" if started is None or started.is_running else end_reason(started)))


async def _list(site: Site, request: Request) -> Response:
    state = _list_state(request, request.query_params.get("current", ""))
    return HTMLResponse(run_rows(site.watcher.summaries, site.grouped(), state))


async def _events(site: Site, request: Request) -> Response:
    events = stream(
        site.watcher,
        request.query_params.get("run", ""),
        site.side_info,
        lambda: site.closing,
        lambda run: site.grouped().title(run),
    )
    return StreamingResponse(events, media_type="text/event-stream")


async def _device(site: Site, request: Request) -> Response:
    text = request.query_params.get("client", "").strip()
    if not text.isdecimal() or len(text) > 9:
        return HTMLResponse('<p class="bad">A device is named by its number.</p>')
    name = request.query_params.get("run", "")

    def piece(run: RunSummary, followed: FollowedRun) -> str:
        return pages.device_piece(run.name, followed.record, int(text), site.side_info(run).server_status)

    return HTMLResponse(await asyncio.to_thread(site.watcher.inspect, name, piece) or '<p class="bad">There is no such run.</p>')


async def _report(site: Site, request: Request) -> Response:
    """The page of a run or of a group, and what it leads to."""
    folder, _, file = request.path_params["name"].rpartition("/")
    run, group = site.watcher.summaries.get(folder), site.grouped().groups.get(folder or ".")
    path = None
    if run is not None and file in _RUN_PAGES:
        path = run.folder / file
    elif group is not None and file and file in (group.page, *_EXPORTS):
        path = group.folder / file
    if path is None or not path.is_file():
        return PlainTextResponse("There is no such page; make that of a run with its button Report.", 404)
    content = await asyncio.to_thread(path.read_bytes)
    return HTMLResponse(content) if path.suffix == ".html" else Response(content, media_type=_TYPES.get(path.suffix, "text/plain"))


async def _compare(site: Site, request: Request) -> Response:
    from fedfleet.app.pages.comparison_page import comparison_page
    from fedfleet.app.studies.compare.comparison import compare

    runs, grouped = site.watcher.summaries, site.grouped()
    ticked = _list_state(request, "").selection.runs_of(
        grouped, runs, lambda words: [run.name for run in filter_runs(runs.values(), words, "", grouped.label).runs]
    )
    if not 2 <= len(ticked) <= MAX_COMPARED:
        return PlainTextResponse(f"Tick two runs or more, {MAX_COMPARED} at most, and compare them then.", 400)
    # Its links lead to reports as they lie under the folder of the runs.
    folders = [run.folder for run in ticked]
    page = await asyncio.to_thread(lambda: comparison_page(compare(folders), site.watcher.root / "comparison.html"))
    return HTMLResponse(page)


async def _static(site: Site, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in site.statics:
        return PlainTextResponse("There is no such file.", 404)
    return Response(site.statics[name], media_type=_TYPES.get(Path(name).suffix, "text/plain"))


async def _check(site: Site, request: Request) -> Response:
    check = await asyncio.to_thread(check_form, await _read_form(request), site.watcher.root, Path.cwd())
    return HTMLResponse(form_messages(check))


async def _start(site: Site, request: Request) -> Response:
    values = await _read_form(request)
    check = await asyncio.to_thread(check_form, values, site.watcher.root, Path.cwd())
    if check.spec is None:
        return HTMLResponse(form_messages(check))
    try:
        started = site.starter.start(check.values["name"], check.spec.toml())
        message = await asyncio.to_thread(site.starter.wait_for_start, started, _START_SECONDS)
    except FedFleetError as error:
        return HTMLResponse(form_messages(FormCheck(check.values, None, {TOML: Mistake(str(error))})))
    if message:
        key, mistake = locate_mistake(message, check.values)
        return HTMLResponse(form_messages(FormCheck(check.values, None, {key: mistake})))
    return Response(headers={"HX-Redirect": run_address(started.name)})


async def _stop(site: Site, request: Request) -> Response:
    run = await _requested_run(site, request)
    site.starter.stop(run)
    return PlainTextResponse("Asked to stop; it ends at its next safe point and can be resumed.")


async def _resume(site: Site, request: Request) -> Response:
    run = await _requested_run(site, request)
    started = site.starter.resume(run)
    message = "" if started.is_running else await asyncio.to_thread(site.starter.wait_for_start, started, 1.0)
    return PlainTextResponse(message or "Going on from its last checkpoint.")


async def _make_report(site: Site, request: Request) -> Response:
    from fedfleet.app.pages.report_page import report_run

    run = await _requested_run(site, request)
    if run.status != FINISHED or not (run.folder / "report.html").is_file():
        await asyncio.to_thread(report_run, run.folder)
    return Response(headers={"HX-Redirect": f"/report/{run_address(run.name).removeprefix('/runs/')}/report.html"})


async def _login(site: Site, request: Request) -> Response:
    del request
    return HTMLResponse(login_page(rejected=False)) if site.access.read_token else RedirectResponse("/", 303)


async def _check_login(site: Site, request: Request) -> Response:
    if not is_read_token(site.access, (await _read_form(request)).get("token", "")):
        await asyncio.sleep(0.5)  # guessing a token takes time
        return HTMLResponse(login_page(rejected=True), 403)
    return RedirectResponse("/", 303, headers={"set-cookie": cookie(site.access)})


async def _requested_run(site: Site, request: Request) -> RunSummary:
    name = (await _read_form(request)).get("run", "")
    await asyncio.to_thread(site.watcher.refresh)
    run = site.watcher.summaries.get(name)
    if run is None:
        raise FedFleetError("There is no such run any more.")
    return run


async def _read_form(request: Request) -> dict[str, str]:
    """The fields of a posted form; what is too long is not read to its end."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY:
            raise FedFleetError(f"The request is longer than {_MAX_BODY:,} bytes.")
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise FedFleetError("The request is not a form.") from None
    return {key: values[-1] for key, values in fields.items()}


def _static_files() -> Mapping[str, bytes]:
    from fedfleet.app.pages.html import tokens

    folder = files("fedfleet.app.dashboard").joinpath("static")
    own = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}
    return {**own, "tokens.css": tokens().encode()}
