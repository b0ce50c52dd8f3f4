import { VisibleText } from "../../../components/VisibleText";
import { JsonNumber } from "../../../lib/json";
import type { Cell } from "./kinds";

export const missingCell: Cell = { className: "", render: () => null };

export const nullCell: Cell = { className: "num quiet", render: () => "null" };

export const booleanCell: Cell = { className: "q", render: (v) => String(v) };

/** A number is shown as it was written. */
export const numberCell: Cell = {
  className: "num right",
  render: (v) => <span className="flow">{v instanceof JsonNumber ? v.literal : ""}</span>,
};

export const idCell: Cell = {
  className: "num q",
  render: (v) => (
    <span className="flow">
      <VisibleText text={String(v)} />
    </span>
  ),
};

export const labelCell: Cell = {
  className: "q",
  render: (v, column) => (
    <span className={column.title ? "flow ttl" : "flow"}>
      <VisibleText text={String(v)} />
    </span>
  ),
};
