import { useState } from "react";
import { setTheme, theme } from "../lib/theme";
import { Icon } from "./Icon";

export function ThemeToggle() {
  const [now, setNow] = useState(theme);
  const other = now === "dark" ? "light" : "dark";
  return (
    <button
      type="button"
      className="icon"
      aria-label={other === "dark" ? "Dark theme" : "Light theme"}
      onClick={() => {
        setTheme(other);
        setNow(other);
      }}
    >
      <Icon name={other === "dark" ? "moon" : "sun"} size={16} />
    </button>
  );
}
