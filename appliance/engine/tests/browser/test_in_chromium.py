"""The web page in a real browser: policy, scripts, keyboard, and readers who cannot see well."""

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from strongroom.director.web.sessions import COOKIE
from strongroom.net.control.messages import StartBackup, StartRestore

pytestmark = pytest.mark.browser

ACCESSIBILITY = (Path(__file__).parent / "accessibility.js").read_text("utf-8")
HOSTILE = "<img src=x onerror=document.title='owned'>\u202e"


def targets(director):
    first, second, _ = director.snapshots
    tree = quote(str(director.tree))
    return [
        "/",
        "/clients",
        "/client?name=web1",
        "/runs",
        "/schedule?day=2",
        "/snapshots",
        f"/snapshots/{first.id}?path={tree}/home",
        "/search?name=*.jpg",
        f"/compare?before={first.id}&after={second.id}",
        f"/restore?snapshot={first.id}&path={tree}/home&way=content&target=/srv/restore",
        f"/restore?snapshot={first.id}&path=/&way=folder&target=no",
        "/notices",
        "/configuration",
        "/resource?kind=Job&name=nightly-web1",
        "/audit",
        "/nowhere",
    ]


def begun(director, web1):
    with director.client("admin") as admin:
        run_id = admin.post("/runs", json={"job": "nightly-web1"}).json()["id"]
    web1.expect(StartBackup)
    web1.started(run_id)
    return run_id


def test_every_page_can_be_used_by_whoever_does_not_see_it_well(
    new_site, director, web1, token, looks
):
    run_id = begun(director, web1)
    web1.log(run_id, "a line")
    site = new_site(**looks)
    site.open("/")
    assert site.page.evaluate(ACCESSIBILITY) == []
    site.log_in(token)
    for target in [*targets(director), f"/runs/{run_id}"]:
        site.open(target)
        assert site.page.evaluate(ACCESSIBILITY) == [], target
    # The answer to a page that is not there, or cannot be, is meant.
    site.complaints = [one for one in site.complaints if "status of 4" not in one]
    web1.ended(run_id)


# The rules of axe-core for WCAG 2.2 A and AA, and its own of good practice.
AXE = """async () => (await axe.run(document, {runOnly: [
    'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}))
    .violations.map(one => one.id + ': ' + one.help + ' ' + one.nodes.map(node => node.html))"""


@pytest.mark.skipif("AXE_CORE" not in os.environ, reason="AXE_CORE does not name axe.min.js")
def test_axe_finds_nothing_on_any_page(new_site, director, web1, token, looks):
    axe = Path(os.environ["AXE_CORE"]).read_text("utf-8")
    run_id = begun(director, web1)
    web1.log(run_id, "a line")
    site = new_site(**looks)
    site.log_in(token)
    found = {}
    for target in [*targets(director), f"/runs/{run_id}"]:
        site.open(target)
        site.page.evaluate(axe)
        found[target] = site.page.evaluate(AXE)
    assert [one for page in found.values() for one in page] == []
    # The answer to a page that is not there, or cannot be, is meant.
    site.complaints = [one for one in site.complaints if "status of 4" not in one]
    web1.ended(run_id)


def test_the_keyboard_alone_logs_in_finds_the_content_and_leads_to_a_client(new_site, token):
    site = new_site()
    site.open("/")
    page = site.page
    assert page.evaluate("document.activeElement.id") == "token"
    page.keyboard.type(token)
    page.keyboard.press("Enter")
    page.wait_for_selector("nav[aria-label=Main]")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    box = page.evaluate("document.activeElement.getBoundingClientRect().left")
    assert box >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    for _ in range(20):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        if page.evaluate("document.activeElement.textContent") == "web1":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/client?name=web1")


def test_a_run_is_followed_while_it_runs_and_its_log_is_text(site, director, web1):
    run_id = begun(director, web1)
    site.open(f"/runs/{run_id}")
    page = site.page
    page.wait_for_selector("#run-state .state-running")
    web1.log(run_id, f"a file called {HOSTILE}")
    web1.progress(run_id, files=1234, bytes=3 << 30)
    page.wait_for_selector("#run-files:text-is('1,234')")
    page.wait_for_selector("#run-log li:has-text('a file called')")
    assert page.locator("#run-bytes").text_content() == "3.0 GiB"
    line = page.locator("#run-log li:has-text('a file called')").text_content()
    assert "<img src=x" in line
    assert "\u202e" not in line
    assert page.locator("#run-log img").count() == 0
    web1.ended(run_id)
    # The page loads itself once more, and offers nothing to cancel.
    page.wait_for_selector("#run-progress", state="detached")
    assert page.locator("form[action$='/cancel']").count() == 0
    assert "owned" not in page.title()


def test_a_job_is_started_and_its_run_cancelled(site, web1):
    page = site.page
    page.on("dialog", lambda dialog: dialog.accept())
    site.open("/client?name=web1")
    page.get_by_role("button", name="Run nightly-web1 now").click()
    page.wait_for_url("**/runs/*")
    run_id = web1.expect(StartBackup).run_id
    assert run_id in page.url
    web1.started(run_id)
    page.get_by_role("button", name="Cancel this run").click()
    page.wait_for_selector("text=to be cancelled")
    web1.ended(run_id, "cancelled")
    page.wait_for_selector("#run-state .state-cancelled")


def test_files_are_chosen_previewed_and_restored(site, director, web1):
    page = site.page
    page.on("dialog", lambda dialog: dialog.accept())
    tree = str(director.tree)
    site.open(f"/snapshots/{director.snapshots[0].id}?path={quote(tree)}/home/ann")
    page.get_by_label("Choose letter.odt").check()
    page.get_by_role("button", name="Restore what is chosen").click()
    page.wait_for_selector("text=To client")
    page.get_by_label("Folder", exact=True).fill("/srv/restore")
    page.get_by_role("button", name="Preview").click()
    page.wait_for_selector("h2:has-text('Preview')")
    assert page.locator(f"td:has-text('/srv/restore{tree}/home/ann/letter.odt')").count() == 1
    page.get_by_role("button", name="Try it without writing").click()
    page.wait_for_url("**/runs/*")
    order = web1.expect(StartRestore)
    assert order.options.dry_run
    web1.started(order.run_id)
    web1.ended(order.run_id)


def test_a_refusal_is_told_where_the_reader_is(site):
    site.open("/notices")
    page = site.page
    page.evaluate(
        "() => { const form = document.createElement('form');"
        " form.className = 'action'; form.setAttribute('action', '/runs');"
        " form.innerHTML = '<input name=job value=nothing><button>Go</button>"
        "<p class=answer role=status></p>'; document.querySelector('main').append(form); }"
    )
    page.get_by_role("button", name="Go").click()
    page.wait_for_selector(".answer.failed:has-text('nothing')")
    site.complaints = [one for one in site.complaints if "status of 4" not in one]


def test_scripts_see_no_cookie_and_the_page_runs_none_of_others(site):
    page = site.page
    assert page.evaluate("document.cookie") == ""
    (cookie,) = [one for one in page.context.cookies() if one["name"] == COOKIE]
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    page.evaluate(
        "() => { const script = document.createElement('script');"
        " script.textContent = 'document.title = \"owned\"'; document.body.append(script);"
        " const picture = '<img src=x onerror=\"document.title=`owned`\">';"
        " document.body.insertAdjacentHTML('beforeend', picture); }"
    )
    page.wait_for_timeout(200)
    assert "owned" not in page.title()
    assert len([one for one in site.complaints if "Content Security Policy" in one]) >= 2
    site.complaints = []


def test_another_site_shows_the_page_in_no_frame_and_sends_no_form(site, director, token):
    page = site.page
    # A page of another origin in the same browser, with our cookie in its jar.
    page.route(
        "https://evil.example/",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f"<iframe src='{director.url}/'></iframe>"
            f"<form method=post action='{director.url}/logout' id=f></form>",
        ),
    )
    page.goto("https://evil.example/")
    page.wait_for_timeout(500)
    assert not [one for one in page.frames if one.locator("nav[aria-label=Main]").count()]
    said = page.evaluate(
        f"fetch('{director.url}/logout',"
        " {method: 'POST', credentials: 'include', mode: 'no-cors'})"
        ".then(answer => answer.type, error => 'refused')"
    )
    assert said in ("opaque", "refused")
    page.evaluate("document.getElementById('f').submit()")
    page.wait_for_load_state()
    site.open("/")
    assert page.locator("nav[aria-label=Main]").count() == 1
    site.complaints = []


def test_the_overview_stays_up_to_date_by_itself_unless_that_is_switched_off(site, director, web1):
    page = site.page
    page.clock.install()
    site.open("/")
    assert page.locator("table:has-text('Runs that have not ended')").count() == 0
    run_id = begun(director, web1)
    page.locator("#refresh").uncheck()
    page.clock.fast_forward(31_000)
    assert page.locator(f"a:has-text('{run_id[:8]}')").count() == 0
    page.locator("#refresh").check()
    page.clock.fast_forward(31_000)
    page.wait_for_selector(f"a:has-text('{run_id[:8]}')")
    web1.ended(run_id)
