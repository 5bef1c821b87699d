"""The built site in a real browser: no errors, nothing asked of the network, legible on a desk and on a phone."""

import json
import re
import shutil
import time

import pytest
from test_docs import DOCS, SITE, needs_site

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    needs_site,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not both on the PATH"),
]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)
# One of each kind; the links of all others are followed by test_docs.py.
PAGES = (
    "index.html",
    "start.html",
    "maths.html",
    "api.html",
    "cli.html",
    "guide/comparison.html",
    "guide/faq.html",
    "gallery/index.html",
    "gallery/plot_serology.html",
    "generated/dst2r.DST2R.html",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(30)
    yield driver
    driver.quit()


def wait_for(happened, what):
    end = time.monotonic() + 15
    while not happened():
        assert time.monotonic() < end, f"{what} did not happen within fifteen seconds"
        time.sleep(0.02)


@pytest.fixture
def visit(browser):
    """Open a page from the folder in a window of some width, and wait for its formulas."""

    def go(page, width=1200, query=""):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get((SITE / page).as_uri() + query)
        set_formulas = "return document.querySelectorAll('.math mjx-container').length"
        formulas = browser.execute_script("return document.querySelectorAll('.math').length")
        wait_for(lambda: browser.execute_script(set_formulas) >= formulas, "setting the formulas")
        return browser

    return go


def complaints(browser):
    """What the console says that is not a mere notice."""
    return [entry for entry in browser.get_log("browser") if entry["level"] != "INFO"]


def asked(browser):
    """Addresses that the page loaded."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("page", PAGES)
def test_no_error_no_request_no_sideways_scrolling(visit, page, width):
    browser = visit(page, width)
    urls = asked(browser)
    assert any(url.endswith(page) for url in urls)
    assert [url for url in urls if not url.startswith(("file://", "data:", "chrome://"))] == []
    assert complaints(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    missing = "return [...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)"
    assert browser.execute_script(missing) == []


def test_formulas_have_their_numbers_and_no_errors(visit):
    browser = visit("maths.html")
    assert browser.find_elements(By.CSS_SELECTOR, "[data-mml-node='merror']") == []
    numbers = browser.execute_script("return [...document.querySelectorAll('[id^=\"mjx-eqn:\"]')].map((n) => n.id)")
    written = re.findall(r"\\tag\{(\d+)\}", (DOCS / "maths.md").read_text(encoding="utf-8"))
    assert numbers == [f"mjx-eqn:{number}" for number in written]
    assert len(written) > 10


@pytest.mark.parametrize("width", [390, 1200])
def test_wide_formulas_can_be_scrolled_to_their_beginning(visit, width):
    browser = visit("maths.html", width)
    cut = """
    return [...document.querySelectorAll("div.math")].filter((box) => {
      box.scrollLeft = 0;
      const svg = box.querySelector("mjx-container svg");
      return svg.getBoundingClientRect().left < box.getBoundingClientRect().left - 1;
    }).length"""
    assert browser.execute_script(cut) == 0


def test_formulas_fit_on_a_desk(visit):
    browser = visit("maths.html")
    widths = "return [...document.querySelectorAll('div.math')].map((box) => [box.scrollWidth, box.clientWidth])"
    assert [pair for pair in browser.execute_script(widths) if pair[0] > pair[1] + 1] == []


def test_summaries_are_seen_on_a_phone(visit):
    browser = visit("api.html", 390)
    edges = (
        "return [...document.querySelectorAll('table.autosummary td')].map((td) => td.getBoundingClientRect().right)"
    )
    found = browser.execute_script(edges)
    assert len(found) > 40
    assert max(found) <= 390


def test_search_finds_without_network(visit):
    browser = visit("search.html", query="?q=DST2RCV")
    results = "return [...document.querySelectorAll('#search-results li a')].map((a) => a.href)"
    wait_for(lambda: browser.execute_script(results), "finding")
    assert any("DST2RCV" in href for href in browser.execute_script(results))
    assert complaints(browser) == []


def test_a_narrow_page_has_its_menu(visit):
    browser = visit("start.html", 390)
    browser.find_element(By.CSS_SELECTOR, ".pst-navbar-icon.primary-toggle, button.primary-toggle").click()
    link = "return [...document.querySelectorAll('a')].some((a) => a.text.trim() === 'Gallery' && a.checkVisibility())"
    wait_for(lambda: browser.execute_script(link), "opening the menu")
