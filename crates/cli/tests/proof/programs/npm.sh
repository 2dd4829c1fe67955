npm ci --offline --no-audit --no-fund > /dev/null
npx --offline alpha
npx --offline beta
rm -rf node_modules
npm ci --offline --no-audit --no-fund > /dev/null
find node_modules -type f | grep -v .package-lock | sort | xargs sha256sum
