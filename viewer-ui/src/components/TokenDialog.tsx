import { type FormEvent, useState } from "react";
import { isApiError, postJson } from "../api/client";
import { Dialog } from "./Dialog";

/** Asks for the token once; the server then gives a cookie for pages, event streams and downloads. */
export function TokenDialog({ onDone }: { readonly onDone: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  async function submit(e: FormEvent) {
    e.preventDefault();
    setBusy(true);
    try {
      await postJson("session", { token });
      onDone();
    } catch (err) {
      const refused = isApiError(err) && (err.status === 401 || err.status === 403);
      setError(refused ? err.detail || "This is not the token." : isApiError(err) ? err.title : String(err));
    } finally {
      setBusy(false);
    }
  }

  return (
    <Dialog title="A token is needed">
      <form onSubmit={submit} className="token">
        <label htmlFor="token">Token of this viewer, as in its VIEWER_TOKEN</label>
        <input
          id="token"
          type="password"
          autoComplete="current-password"
          required
          value={token}
          onChange={(e) => setToken(e.target.value)}
          aria-describedby={error === null ? undefined : "token-error"}
          aria-invalid={error !== null}
        />
        {error !== null && (
          <p id="token-error" role="alert" className="bad">
            {error}
          </p>
        )}
        <div className="dialog-end">
          <button type="submit" className="btn solid" disabled={busy}>
            Continue
          </button>
        </div>
      </form>
    </Dialog>
  );
}
