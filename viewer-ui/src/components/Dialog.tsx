import { type ReactNode, useEffect, useId, useRef } from "react";

interface Props {
  readonly title: string;
  readonly onClose?: () => void;
  readonly children: ReactNode;
}

/** A modal dialog. Without onClose it stays until what it asks for is given. */
export function Dialog({ title, onClose, children }: Props) {
  const id = useId();
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current?.showModal(), []);
  return (
    <dialog
      ref={element}
      className="dialog"
      aria-labelledby={id}
      onCancel={(e) => {
        if (!onClose) e.preventDefault();
      }}
      onClose={onClose}
      onKeyDown={(e) => e.stopPropagation()}
      onClick={(e) => {
        if (e.target === element.current) onClose?.();
      }}
    >
      <div className="dialog-in">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}
