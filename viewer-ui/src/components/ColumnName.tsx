import { VisibleText } from "./VisibleText";

/** The name of a column. One that would not be seen is described. */
export function ColumnName({ name }: { readonly name: string }) {
  if (name === "") return <i>empty name</i>;
  if (name.trim() === "") return <i title={JSON.stringify(name)}>blank name</i>;
  return <VisibleText text={name} />;
}
