for name in alpha beta; do
  mkdir -p "packages/$name/package/lib"
  echo "{\"name\":\"$name\",\"version\":\"1.0.0\",\"main\":\"lib/index.js\",\"bin\":{\"$name\":\"lib/cli.js\"}}" > "packages/$name/package/package.json"
  echo "module.exports = '$name';" > "packages/$name/package/lib/index.js"
  printf '#!/usr/bin/env node\nconsole.log(require(".").toUpperCase());\n' > "packages/$name/package/lib/cli.js"
  for n in $(seq 1 150); do echo "exports.n = $n;" > "packages/$name/package/lib/$n.js"; done
  tar czf "$name-1.0.0.tgz" -C "packages/$name" package
done
rm -r packages
echo '{"name":"app","version":"1.0.0","dependencies":{"alpha":"file:alpha-1.0.0.tgz","beta":"file:beta-1.0.0.tgz"}}' > package.json
npm install --offline --no-audit --no-fund --package-lock-only > /dev/null
