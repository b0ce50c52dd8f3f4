// Writes .br and .gz beside every text file of dist, so that the server never compresses at run time.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const dist = new URL("../dist/", import.meta.url).pathname;
const text = /\.(html|js|css|svg|json|txt)$/;
const total = { raw: 0, gz: 0, br: 0 };

for (const entry of await readdir(dist, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !text.test(entry.name)) continue;
  const path = join(entry.parentPath, entry.name);
  const raw = await readFile(path);
  const br = brotliCompressSync(raw, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: raw.length },
  });
  const gz = gzipSync(raw, { level: 9 });
  await Promise.all([writeFile(`${path}.br`, br), writeFile(`${path}.gz`, gz)]);
  total.raw += raw.length;
  total.gz += gz.length;
  total.br += br.length;
}
const kb = (n) => `${(n / 1024).toFixed(1)} KB`;
console.log(`precompressed: ${kb(total.raw)} raw, ${kb(total.gz)} gzip, ${kb(total.br)} brotli`);
