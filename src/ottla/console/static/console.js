// The console's only script: live regions, times in the viewer's zone, dark or light, and buttons that copy.
// Every page works without it.

const POLL_MS = 10000;
const main = document.querySelector("main");
const live = document.getElementById("live");

function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!isNaN(at) && !time.title) {
      time.title = time.textContent;
      time.textContent = at.toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
    }
  }
}

function isInUse(region) {
  const active = document.activeElement;
  if (region.contains(active) && active.matches("input, textarea, select")) return true;
  const chosen = document.getSelection();
  return chosen && !chosen.isCollapsed && region.contains(chosen.anchorNode);
}

function focusMark(region) {
  // The place of the focus among the things of a region that can have it, by address or by position.
  const active = document.activeElement;
  if (!region.contains(active) || active === region) return null;
  const all = [...region.querySelectorAll("a, button, summary, [tabindex]")];
  return { href: active.getAttribute("href"), at: all.indexOf(active) };
}

function restoreFocus(region, mark) {
  if (!mark) return;
  const all = [...region.querySelectorAll("a, button, summary, [tabindex]")];
  const same = mark.href && all.find((each) => each.getAttribute("href") === mark.href);
  (same || all[mark.at])?.focus({ preventScroll: true });
}

function swap(name, html) {
  const old = document.getElementById(name);
  if (!old || !old.matches("[data-region]") || isInUse(old)) return;
  const fresh = new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
  if (!fresh) return;
  const mark = focusMark(old);
  const scrolls = [...old.querySelectorAll(".scroll")].map((each) => [each.scrollTop, each.scrollLeft]);
  const open = new Set([...old.querySelectorAll("details[open]")].map((each) => each.dataset.key || each.querySelector("summary")?.textContent));
  localTimes(fresh);
  old.replaceWith(fresh);
  fresh.querySelectorAll(".scroll").forEach((each, number) => {
    if (scrolls[number]) [each.scrollTop, each.scrollLeft] = scrolls[number];
  });
  for (const each of fresh.querySelectorAll("details")) {
    if (open.has(each.dataset.key || each.querySelector("summary")?.textContent)) each.open = true;
  }
  restoreFocus(fresh, mark);
  fresh.dispatchEvent(new CustomEvent("region", { bubbles: true }));
}

function say(state, text) {
  if (live.dataset.state !== state) {
    live.dataset.state = state;
    live.textContent = text;
  }
}

async function poll() {
  // What a page does that gets no stream: it reads itself anew now and then.
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.ok) for (const each of page.querySelectorAll("[data-region]")) swap(each.id, each.outerHTML);
    say(answer.ok ? "poll" : "off", answer.ok ? "refreshed every 10 s" : "not connected");
  } catch {
    say("off", "not connected");
  }
}

function follow(path) {
  let polling = 0;
  const open = () => {
    const source = new EventSource("/live?path=" + encodeURIComponent(path));
    source.addEventListener("open", () => {
      clearInterval(polling);
      polling = 0;
      say("on", "live");
    });
    source.addEventListener("regions", (event) => {
      for (const [name, html] of Object.entries(JSON.parse(event.data))) swap(name, html);
    });
    source.addEventListener("error", () => {
      say("off", "not connected");
      if (source.readyState === EventSource.CLOSED) {
        if (!polling) polling = setInterval(poll, POLL_MS);
        setTimeout(open, POLL_MS * 3);
      }
    });
    window.addEventListener("pagehide", () => source.close(), { once: true });
  };
  open();
}

function theme() {
  const button = document.querySelector("[data-theme-switch]");
  const kept = localStorage.getItem("theme");
  if (kept) document.documentElement.dataset.theme = kept;
  button.hidden = false;
  button.addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  });
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) {
    await navigator.clipboard.writeText(button.dataset.copy);
    const text = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = text), 1500);
  }
});

theme();
localTimes(document);
if (main?.dataset.live) follow(main.dataset.live);
