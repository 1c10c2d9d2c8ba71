/** A picture that is imported as a file: its path, inside the binary where that is compiled. */
declare module '*.png' {
  const path: string
  export default path
}
