import { VisibleText } from "../../../components/VisibleText";
import { stringifyJson } from "../../../lib/json";
import type { Cell } from "./kinds";

export const jsonCell: Cell = {
  className: "num q",
  render: (v) => (
    <span className="flow">
      <VisibleText text={stringifyJson(v).slice(0, 400)} />
    </span>
  ),
};
