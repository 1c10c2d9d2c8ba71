/** Preloaded into a gateway process: on SIGUSR2 it prints the packages whose modules it has loaded. */
process.on('SIGUSR2', () => {
  const names = Object.keys(require.cache).flatMap(
    (path) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? [],
  )
  console.log(`loaded: ${[...new Set(names)].sort().join(' ')}.`)
})
