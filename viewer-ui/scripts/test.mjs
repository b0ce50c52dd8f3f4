// Runs vitest with the given arguments, and then says `N passed, N failed` on a line of its own.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = mkdtempSync(join(tmpdir(), "vitest-"));
const report = join(folder, "report.json");
const vitest = new URL("../node_modules/vitest/vitest.mjs", import.meta.url).pathname;
const run = spawnSync(
  process.execPath,
  [vitest, "run", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`, ...process.argv.slice(2)],
  { stdio: "inherit", cwd: new URL("..", import.meta.url).pathname },
);
let failed = run.status !== 0;
try {
  const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, "utf8"));
  console.log(`${numPassedTests} passed, ${numFailedTests} failed`);
  failed ||= numFailedTests > 0 || numPassedTests === 0;
} catch (err) {
  console.error(`no test report: ${err}`);
  failed = true;
}
rmSync(folder, { recursive: true, force: true });
process.exit(failed ? 1 : 0);
