import { home } from "../lib/urlState";
import { Brand } from "./Icon";
import { LiveIndicator } from "./LiveIndicator";
import { ThemeToggle } from "./ThemeToggle";
import { ViewLink } from "./ViewLink";
import { VisibleText } from "./VisibleText";

interface Props {
  readonly dataset: string | null;
  readonly held?: boolean;
}

export function TopBar({ dataset, held = false }: Props) {
  return (
    <header className="top">
      <ViewLink to={home} className="brand">
        <Brand />
        <span>siltstone</span>
      </ViewLink>
      {dataset !== null && (
        <>
          <span className="slash" aria-hidden="true">
            /
          </span>
          <h1 className="ds">
            <VisibleText text={dataset} />
          </h1>
        </>
      )}
      <span className="sp" />
      <LiveIndicator held={held} />
      <ThemeToggle />
    </header>
  );
}
