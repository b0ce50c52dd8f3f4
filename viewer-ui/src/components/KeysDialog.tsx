import { Dialog } from "./Dialog";

const keys: readonly (readonly [readonly string[], string])[] = [
  [["j", "↓"], "next row"],
  [["k", "↑"], "previous row"],
  [["←", "→"], "other cell of the row"],
  [["PgUp", "PgDn"], "a screen up or down"],
  [["g", "Home"], "first row; new rows settle in there"],
  [["End"], "last row read so far"],
  [["↵"], "open the row"],
  [["Esc"], "close the row"],
  [["c"], "copy the cell"],
  [["y"], "copy the row as JSON"],
  [["?"], "this list"],
];

export function KeysDialog({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="keys">
        {keys.map(([names, what]) => (
          <div key={what}>
            <dt>
              {names.map((k) => (
                <kbd key={k}>{k}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" className="dialog-end">
        <button type="submit" className="btn line">
          Close
        </button>
      </form>
    </Dialog>
  );
}
