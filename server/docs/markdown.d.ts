/** Markdown imported as text: `import page from './page.md' with { type: 'text' }`. */
declare module '*.md' {
  const text: string
  export default text
}
