import { formatFull, formatMoment } from "../../../lib/format";
import type { Cell } from "./kinds";

export const timeCell: Cell = {
  className: "num",
  render: (_v, _column, row) => {
    if (!row.createdAt) return null;
    const [day, time] = formatMoment(row.createdAt, new Date());
    return (
      <time dateTime={row.createdAt.toISOString()} title={formatFull(row.createdAt)}>
        <span className="quiet">{day}</span> {time}
      </time>
    );
  },
};
