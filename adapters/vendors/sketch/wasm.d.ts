declare module '@resvg/resvg-wasm/index_bg.wasm' {
  /** Where the file is; inside a compiled binary too. */
  const path: string
  export = path
}
