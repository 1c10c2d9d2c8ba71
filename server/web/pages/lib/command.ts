/** How this gateway writes the command `farebox` for its buyers: the document says it (setting `buyer_command`). */
export const buyerCommand = (): string =>
  document.querySelector<HTMLMetaElement>('meta[name="farebox-command"]')?.content ?? 'farebox'
