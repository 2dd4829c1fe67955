node -e 'console.log(require("alpha"), require("beta"), require("alpha/lib/150.js").n)'
find node_modules -type l -printf '%p %l\n' | sort
