/** Choices that stay in this browser. A browser that keeps nothing is no error. */
export function recall(name: string): string | null {
  try {
    return localStorage.getItem(`siltstone.${name}`);
  } catch {
    return null;
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`siltstone.${name}`, value);
  } catch {
    // Private windows and full disks: the choice holds until the page is left.
  }
}
