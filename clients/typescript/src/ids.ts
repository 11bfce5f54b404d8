/** A new decision id (UUIDv7: ids sort by time), so that a retried request counts once. */
export function decisionId(now: number = Date.now()): string {
  const bytes = random(10);
  const time = Math.floor(now).toString(16).padStart(12, "0");
  bytes[0] = ((bytes[0] ?? 0) & 0x0f) | 0x70; // version 7
  bytes[2] = ((bytes[2] ?? 0) & 0x3f) | 0x80; // variant
  return `dec_${time}${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function random(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  // Node 18 has no global crypto; an id must be unique, not secret.
  if (globalThis.crypto?.getRandomValues) return globalThis.crypto.getRandomValues(bytes);
  return bytes.map(() => Math.floor(Math.random() * 256));
}
