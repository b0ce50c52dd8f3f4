import { jsonCell } from "./json-cell";
import type { Cell, CellKind } from "./kinds";
import { booleanCell, idCell, labelCell, missingCell, nullCell, numberCell } from "./plain-cells";
import { textCell } from "./text-cell";
import { timeCell } from "./time-cell";

export { cellKind } from "./kinds";

export const cells: Record<CellKind, Cell> = {
  missing: missingCell,
  null: nullCell,
  time: timeCell,
  id: idCell,
  number: numberCell,
  boolean: booleanCell,
  label: labelCell,
  text: textCell,
  json: jsonCell,
};
