import type { ReactNode } from "react";

/** Strata with nothing between them. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="empty">
      <svg
        width="62"
        height="28"
        viewBox="0 0 62 28"
        fill="none"
        strokeWidth="2"
        strokeLinecap="round"
        aria-hidden="true"
      >
        <path d="M2 5c10-5 18 1 28 1s18-5 30-2" stroke="var(--line-2)" />
        <path d="M2 14c10-4 18 1 28 1s18-4 30-2" stroke="var(--line-2)" strokeDasharray="1 6" />
        <path d="M2 24c10-5 18 1 28 1s18-5 30-2" stroke="var(--live)" />
      </svg>
      <h2>{title}</h2>
      {children}
    </div>
  );
}
