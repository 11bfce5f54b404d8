// The current time, for "3 s ago"; one timer for the whole page.
class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => (this.now = Date.now()), 5000);
  }
}

export const clock = new Clock();
