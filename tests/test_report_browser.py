"""The report in a real browser: it asks nobody for anything, moves, and can be read small, dark and on paper."""

import base64
import json
import shutil
import time

import numpy as np
import pytest

from dst2r import DST2R, DST2RCV, make_tensor_regression
from dst2r.labels import Labels, Mode
from dst2r.report import write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not both on the PATH")

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"

# Ratio of contrast between a text and what is drawn behind it, as WCAG 2 defines it, for all visible texts.
CONTRAST = """
const parse = (color) => color.match(/[\\d.]+/g).map(Number);
const over = ([r, g, b, a = 1], [x, y, z]) => [a * r + (1 - a) * x, a * g + (1 - a) * y, a * b + (1 - a) * z];
const light = (color) => {
  const [r, g, b] = color.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (node) => {
  if (!node) return [255, 255, 255];
  const color = parse(getComputedStyle(node).backgroundColor);
  return color[3] === 0 ? behind(node.parentElement) : over(color, behind(node.parentElement));
};
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const node = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !node.checkVisibility() || node.closest("script,style,noscript,:disabled,.skip"))
    continue;
  const style = getComputedStyle(node);
  const back = behind(node);
  const front = over(parse(node instanceof SVGElement ? style.fill : style.color), back);
  const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
  found.push([(high + 0.05) / (low + 0.05), walk.currentNode.data.slice(0, 40)]);
}
return found;
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Pages of four kinds of models, by name."""
    folder, pages = tmp_path_factory.mktemp("reports"), {}
    data = make_tensor_regression(150, (4, 3), (3, 2), rank=2, noise=0.5, random_state=0)
    model = DST2RCV((1, 2), n_l1=12).fit(data.X, data.Y)
    labels = (HOSTILE, "RBD", "N", "S2"), None, ("liver", "heart", "skin"), ("a", "b")
    modes = [Mode(name, text) for name, text in zip(("antigen", "isotype", "tissue", HOSTILE), labels, strict=True)]
    model.labels_ = Labels(tuple(modes[:2]), tuple(modes[2:]), "person")
    pages["labels"] = write_report(model, folder / "labels.html", data.X, data.Y)
    data = make_tensor_regression(300, (5, 4, 3), (3, 2, 3), rank=2, sparsity=0.2, noise=0.05, random_state=0)
    model = DST2R(3).fit(data.X, data.Y)
    assert model.rank_ > 1
    pages["three"] = write_report(model, folder / "three.html", data.X, data.Y)
    data = make_tensor_regression(100, (6,), (3, 16), rank=1, noise=1.0, random_state=1)
    pages["columns"] = write_report(DST2R().fit(data.X, data.Y), folder / "columns.html", data.X, data.Y)
    data = make_tensor_regression(100, (6,), (), rank=1, noise=1.0, random_state=1)
    pages["scalar"] = write_report(DST2R().fit(data.X, data.Y), folder / "scalar.html", data.X, data.Y)
    data = make_tensor_regression(150, (100,), (100,), rank=1, sparsity=0.6, noise=3.0, random_state=2)
    model = DST2R().fit(data.X, data.Y)
    assert model.rank_ == 1
    pages["long"] = write_report(model, folder / "long.html", data.X, data.Y)
    return pages


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


@pytest.fixture
def visit(browser, reports):
    """Open a page in a window of some width, dark if asked."""

    def go(name, width=1200, *, dark=False, media=""):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme], "media": media})
        browser.get(reports[name].as_uri())
        wait_for(lambda: all(chart.text for chart in browser.find_elements(By.CSS_SELECTOR, ".chart")))
        return browser

    return go


def wait_for(happened):
    end = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < end, "it did not happen within ten seconds"
        time.sleep(0.02)


def evidence(browser):
    return json.loads(browser.find_element(By.ID, "evidence").get_attribute("textContent"))


def shown(browser):
    """Weight of every visible component and its first mode's first value."""
    script = """
    return [...document.querySelectorAll("[data-component]:not([hidden])")].map((card) => [
      card.querySelector(".weight output").textContent,
      [...card.querySelectorAll(".mode rect")].map((bar) => [bar.getAttribute("width"), bar.getAttribute("x")]),
    ]);"""
    return browser.execute_script(script)


NAMES = ("labels", "three", "scalar", "long")


@pytest.mark.parametrize("name", NAMES)
def test_no_error_no_request_no_foreign_script(visit, name):
    browser = visit(name)
    browser.get_log("browser")
    browser.get_log("performance")
    visit(name)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url.split("/")[-1] for url in asked if not url.startswith("data:")] == [f"{name}.html"]
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_policy_keeps_requests_from_leaving(visit):
    browser = visit("scalar")
    code = "fetch(arguments[0]).then(() => arguments[1]('sent'), () => arguments[1]('refused'))"
    assert browser.execute_async_script(code, "http://localhost:9/") == "refused"
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


@pytest.mark.parametrize("name", ["labels", "three"])
def test_slider_moves_pictures_and_numbers_by_keyboard(visit, name):
    browser = visit(name)
    path, parts = (evidence(browser)[key] for key in ("path", "components"))
    slider, output = (browser.find_element(By.ID, key) for key in ("along", "shown"))
    start, cursor = path["reported"], "[data-chart=path] .cursor"
    assert int(slider.get_attribute("value")) == start
    before = shown(browser)
    place = browser.find_element(By.CSS_SELECTOR, cursor).get_attribute("transform")
    slider.send_keys(Keys.HOME)
    assert start > 2, "the test needs room"
    assert output.text == path["texts"][0] == slider.get_attribute("aria-valuetext")
    assert browser.find_element(By.CSS_SELECTOR, cursor).get_attribute("transform") != place
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ARROW_RIGHT)
    t = 2
    assert output.text == path["texts"][t]
    after = shown(browser)
    assert after != before
    alive = [part for part in parts if part["weights"][t]]
    assert [float(weight) for weight, _ in after] == pytest.approx([part["weights"][t] for part in alive], rel=5e-3)
    for (_, bars), part in zip(after, alive, strict=True):
        values = np.concatenate([np.array(m["values"][t]) / np.abs(m["values"][t]).max() for m in part["modes"]])
        assert [float(width) for width, _ in bars] == pytest.approx(np.abs(values), abs=1e-6)
        assert [float(x) for _, x in bars] == pytest.approx(np.minimum(values, 0), abs=1e-6)
    browser.find_element(By.ID, "home").click()
    assert output.text == path["texts"][start]
    assert [weight for weight, _ in shown(browser)] == [weight for weight, _ in before]
    assert browser.switch_to.active_element == slider


def test_the_page_as_written_is_what_the_script_shows(visit):
    """The reported model's cards come from Python; moving away and back must not change them."""
    browser = visit("long")
    cards = "return [...document.querySelectorAll('.card')].map((card) => card.innerText)"
    before = browser.execute_script(cards)
    slider = browser.find_element(By.ID, "along")
    slider.send_keys(Keys.HOME)
    assert browser.execute_script(cards) != before
    browser.find_element(By.ID, "home").click()
    assert browser.execute_script(cards) == before


def test_everything_can_be_reached_by_keyboard_and_focus_is_seen(visit):
    browser = visit("labels")
    seen = []
    for _ in range(60):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        node = browser.switch_to.active_element
        if node.tag_name == "body":
            break
        seen.append(node.get_attribute("id") or node.tag_name)
        assert node.value_of_css_property("outline-style") != "none", seen[-1]
    assert {"along", "entry", "a", "summary", "pre", "div"} <= set(seen)
    roles = {tag: len(browser.find_elements(By.TAG_NAME, tag)) for tag in ("header", "nav", "main", "footer", "h1")}
    assert roles == dict.fromkeys(roles, 1)
    unnamed = """
    return [...document.querySelectorAll("svg:not([aria-hidden]), .scroll, section, input, select, nav, pre")].filter(
      (node) => !(node.getAttribute("aria-label") || node.getAttribute("aria-labelledby") || node.labels?.length)
    ).length"""
    assert browser.execute_script(unnamed) == 0


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", NAMES)
def test_no_sideways_scrolling(visit, name, width):
    browser = visit(name, width)
    assert browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]
    cut = """
    return [...document.querySelectorAll("main *")].filter((node) => !node.closest(".scroll, pre, .mode, summary svg")
      && node.getClientRects().length && node.getBoundingClientRect().right > innerWidth + 1).map((n) => n.outerHTML)"""
    assert browser.execute_script(cut) == []


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", ["labels", "long"])
def test_no_label_is_cut(visit, name, width):
    browser = visit(name, width)
    sizes = "return [...document.querySelectorAll('.mode th')].map((th) => [th.scrollWidth, th.clientWidth])"
    found = browser.execute_script(sizes)
    assert len(found) > 10
    assert [sizes for sizes in found if sizes[0] > sizes[1]] == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["labels", "three"])
def test_text_has_contrast(visit, name, dark):
    browser = visit(name, dark=dark)
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) == dark
    texts = browser.execute_script(CONTRAST)
    assert len(texts) > 100
    assert [(ratio, text) for ratio, text in texts if ratio < 4.5] == []


def test_predicted_against_observed_follows_the_chosen_entry(visit):
    browser = visit("labels")
    quality = evidence(browser)["quality"]
    dots = "[data-chart=scatter] .point"
    assert len(browser.find_elements(By.CSS_SELECTOR, dots)) == len(quality["pooled"])
    options = browser.find_elements(By.CSS_SELECTOR, "#entry option")
    assert len(options) == 1 + len(quality["entries"])
    options[2].click()
    assert quality["entries"][1]["name"] in options[2].text
    assert len(browser.find_elements(By.CSS_SELECTOR, dots)) == len(quality["entries"][1]["points"])


def test_charts_hold_what_they_should(visit):
    browser = visit("labels")
    choice = evidence(browser)["choice"]
    surface = "[data-chart=surface] "
    cells = browser.find_elements(By.CSS_SELECTOR, surface + ".cell")
    voids = browser.find_elements(By.CSS_SELECTOR, surface + ".void")
    assert len(cells) + len(voids) == len(choice["ranks"]) * len(choice["l1"])
    assert len(browser.find_elements(By.CSS_SELECTOR, surface + ".mark")) == 2
    strongest = max(cells, key=lambda cell: float(cell.get_attribute("fill-opacity")))
    row, column = choice["least"]
    title = strongest.find_element(By.TAG_NAME, "title").get_attribute("textContent")
    assert title.startswith(f"rank {choice['ranks'][row]}, l1 = ")
    assert float(title.split()[-1]) == pytest.approx(choice["mean"][row][column], rel=1e-3)
    browser = visit("three")
    path = evidence(browser)["path"]
    dots = browser.find_elements(By.CSS_SELECTOR, "[data-chart=criterion] .dot")
    heights = [float(dot.get_attribute("cy")) for dot in dots]
    known = [value for value in path["criterion"] if value is not None]
    assert np.corrcoef(heights, known)[0, 1] < -0.999


def test_charts_follow_the_width_of_the_window(visit):
    browser = visit("three")
    width = "return Number(document.querySelector('[data-chart=path] svg').getAttribute('width'))"
    wide = browser.execute_script(width)
    size = {"width": 390, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wait_for(lambda: browser.execute_script(width) < min(wide, 390))


def test_paper_shows_the_chosen_point_and_opens_all_cards(visit):
    browser = visit("three", media="print")
    slider = browser.find_element(By.ID, "along")
    assert not slider.is_displayed()
    assert not browser.find_element(By.TAG_NAME, "nav").is_displayed()
    output = browser.find_element(By.ID, "shown")
    assert output.is_displayed()
    assert "reported model" in output.text
    browser.execute_script("document.querySelectorAll('details').forEach((card) => (card.open = false))")
    states = "return [...document.querySelectorAll('details')].map((card) => card.open)"
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert all(browser.execute_script(states))
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert not any(browser.execute_script(states))
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    assert pdf.startswith(b"%PDF")


def test_paper_has_no_choice_of_entries_between_heading_and_picture(visit):
    browser = visit("labels", media="print")
    assert not browser.find_element(By.XPATH, "//p[select]").is_displayed()


def test_paper_cuts_no_table(visit):
    wide = 673  # A4 less its margins
    browser = visit("columns", wide, media="print")
    edges = "return [...document.querySelectorAll('main table')].map((t) => t.getBoundingClientRect().right)"
    found = browser.execute_script(edges)
    assert len(found) > 3
    assert max(found) <= wide + 1


def test_without_script_the_tables_are_there(visit):
    browser = visit("three")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.refresh()
        text = browser.find_element(By.TAG_NAME, "main").text
        assert "need JavaScript" in text
        assert "Component 1" in text
        assert "○ 0" in text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
