/** Calls at once and then at most once in so many milliseconds; the last call is never lost. */
export function throttle(call: () => void, ms: number): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;
  function fire() {
    again = false;
    timer = setTimeout(() => {
      timer = undefined;
      if (again) fire();
    }, ms);
    call();
  }
  return () => {
    if (timer === undefined) fire();
    else again = true;
  };
}
