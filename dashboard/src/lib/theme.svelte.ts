// Light or dark: follows the system until the user chooses; the choice is stored in this browser.
type Choice = "system" | "light" | "dark";
const KEY = "headway-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

class Theme {
  choice = $state<Choice>(read());
  #system = $state(system.matches);

  constructor() {
    system.addEventListener("change", () => (this.#system = system.matches));
  }

  get dark(): boolean {
    return this.choice === "system" ? this.#system : this.choice === "dark";
  }

  turn(): void {
    this.choice = this.dark ? "light" : "dark";
    try {
      localStorage.setItem(KEY, this.choice);
    } catch {
      // without storage the choice lasts until the page is closed
    }
  }
}

function read(): Choice {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "system";
  } catch {
    return "system";
  }
}

export const theme = new Theme();
