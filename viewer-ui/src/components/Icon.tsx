import type { ReactNode } from "react";

// Drawn, because glyphs such as ⧉ are missing from many fonts.
const shapes = {
  up: <path d="M3 9l4-4 4 4" />,
  down: <path d="M3 5l4 4 4-4" />,
  close: <path d="M2.500 2.500l9 9m0-9l-9 9" />,
  link: (
    <path d="M5.800 8.200a2.500 2.500 0 0 0 3.500 0l2-2a2.500 2.500 0 0 0-3.500-3.500l-.8.8M8.200 5.800a2.500 2.500 0 0 0-3.500 0l-2 2a2.500 2.500 0 0 0 3.500 3.500l.8-.8" />
  ),
  copy: (
    <>
      <rect x="4.500" y="4.500" width="7.500" height="7.500" rx="1.500" />
      <path d="M9.500 4.500V3.500a1.500 1.500 0 0 0-1.500-1.500H3.500A1.500 1.500 0 0 0 2 3.500V8a1.500 1.500 0 0 0 1.500 1.500h1" />
    </>
  ),
  check: <path d="M2.500 7.500l3 3 6-6.500" />,
  moon: <path d="M11.900 8.600A5.200 5.200 0 0 1 5.400 2.100a5.200 5.200 0 1 0 6.500 6.500z" />,
  sun: (
    <>
      <circle cx="7" cy="7" r="2.600" />
      <path d="M7 .9v1.400M7 11.700v1.400M.9 7h1.400M11.700 7h1.400M2.700 2.700l1 1M10.300 10.300l1 1M11.300 2.700l-1 1M3.700 10.300l-1 1" />
    </>
  ),
  search: (
    <>
      <circle cx="6" cy="6" r="4.200" />
      <path d="m9.200 9.200 3.300 3.300" />
    </>
  ),
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof shapes;

export function Icon({ name, size = 14 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 14 14"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {shapes[name]}
    </svg>
  );
}

export function Brand() {
  return (
    <svg
      width="22"
      height="22"
      viewBox="0 0 22 22"
      fill="none"
      strokeWidth="2.2"
      strokeLinecap="round"
      aria-hidden="true"
    >
      <path d="M2 6.200c4-2.400 6.600-.2 9.400-.2 2.900 0 5-2 8.600-.4" stroke="var(--live)" />
      <path d="M2 11.400c4-2 6.600-.2 9.400-.2 2.900 0 5-1.800 8.600-.3" stroke="var(--ink)" />
      <path d="M2 16.600c4-1.600 6.600-.2 9.400-.2 2.900 0 5-1.500 8.600-.2" stroke="var(--accent)" />
    </svg>
  );
}
